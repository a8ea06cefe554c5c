"""Where attention and loss go, and what context is worth (sections 4.5 and 4.6 of the paper)."""
