"""Streamable HTTP."""
