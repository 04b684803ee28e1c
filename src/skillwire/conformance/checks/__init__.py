"""Checks: each compares what a server answered with the rules of one area, without any I/O."""
