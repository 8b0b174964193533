"""Classifiers that model the rows of each class: naive Bayes and Gaussian discriminants."""
