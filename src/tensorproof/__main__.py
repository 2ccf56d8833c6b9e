"""`python -m tensorproof` is the command line."""

from tensorproof.cli import main

main()
