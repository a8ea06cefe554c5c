"""What is measured, each beside what one would have done without it, in the same run."""
