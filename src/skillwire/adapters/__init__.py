"""Skills in agent frameworks and model services: one small module for each, imported when it is used."""
