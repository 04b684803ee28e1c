"""Servers from other clients' configuration: one module for each client."""
