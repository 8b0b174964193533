"""Topics of documents: LSA, pLSA and latent Dirichlet allocation."""
