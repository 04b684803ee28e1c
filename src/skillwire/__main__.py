"""`python -m skillwire` is `skillwire`."""

from skillwire.cli import main

main()
