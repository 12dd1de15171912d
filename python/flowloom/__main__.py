"""`python -m flowloom`: the command line."""

from flowloom.cli import main

main()
