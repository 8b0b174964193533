"""Trees of clusters: agglomerative and divisive, cuts, cophenetic distances."""
