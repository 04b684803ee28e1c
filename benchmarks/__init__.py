"""Skillwire beside its peers and beside what the machine can do, in one run."""
