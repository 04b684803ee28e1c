"""`skillwire.toml`."""
