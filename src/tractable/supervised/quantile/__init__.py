"""Linear quantile regression at a grid of levels, and the predictive laws that it gives."""
