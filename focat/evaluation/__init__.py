"""What the trained weights are worth: contrastive suites."""
