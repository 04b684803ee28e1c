"""Servers from other clients' configuration."""
