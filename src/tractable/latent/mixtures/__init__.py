"""Mixtures of Gaussians and of other families, fitted by the one EM driver."""
