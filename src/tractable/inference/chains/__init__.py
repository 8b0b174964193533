"""Running Markov chains: one driver, warm-up, storage, targets."""
