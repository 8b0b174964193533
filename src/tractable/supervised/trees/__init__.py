"""Decision trees, and forests and committees of them."""
