"""Networks whose weights are uncertain: one posterior, many approximations, a verdict on each."""
