"""YAML 1.2 core schema, as JSON values."""
