"""`python -m focat`, and `torchrun … -m focat train …`."""

from focat.cli import main

main()
