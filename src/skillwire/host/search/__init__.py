"""Search over skills."""
