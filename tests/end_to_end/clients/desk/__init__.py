"""A help desk, served to real clients: a model, and tools that ask, tell how far they are, and answer at length."""
