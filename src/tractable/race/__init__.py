"""Layer 10b: models of a table raced against each other on rows they have not seen, and the winner kept."""
