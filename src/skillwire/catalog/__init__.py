"""Many skills together: the registry that names them, and the text that a model sees."""
