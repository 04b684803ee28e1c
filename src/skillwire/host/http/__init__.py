"""HTTP for connections, with caps."""
