"""Clusters around centres: k-means and its relatives, costs, and the number of clusters."""
