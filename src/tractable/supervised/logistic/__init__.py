"""Log-linear models of classes: logistic, softmax, probit, maximum entropy, and their posteriors."""
