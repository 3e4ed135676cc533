"""A small app with the models that the demo has no use for: secrets, awkward keys, inheritance, many-to-many."""
