"""Tests share two cores: one thread each, here and in the commands that tests start."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported
