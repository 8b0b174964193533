"""Layer 6: latent structure: clusters, mixtures, factors, embeddings and topics."""
