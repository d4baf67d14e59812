"""`python -m keeps` is the command `keeps`."""

from keeps.cli.app import main

main()
