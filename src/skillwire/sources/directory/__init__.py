"""Skills from directories."""
