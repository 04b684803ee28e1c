"""Run the command line with `python -m skillwire`."""

from skillwire.cli import main

main()
