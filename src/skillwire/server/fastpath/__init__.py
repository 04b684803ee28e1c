"""Responses to common requests without the SDK."""
