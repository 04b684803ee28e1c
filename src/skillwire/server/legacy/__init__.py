"""Features for clients without the extension."""
