"""Embeddings from distances and neighbours."""
