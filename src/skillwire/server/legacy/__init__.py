"""What clients without the extension read."""
