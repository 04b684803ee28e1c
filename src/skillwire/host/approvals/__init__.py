"""What the user approved, and how to ask."""
