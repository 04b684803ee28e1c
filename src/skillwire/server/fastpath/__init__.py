"""Common requests, answered without the SDK."""
