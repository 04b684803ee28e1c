"""Scripts that write or check parts of the repository."""
