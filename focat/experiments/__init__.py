"""Plans: a grid of systems, trained and measured as often as it takes, and the paper's tables built from it."""
