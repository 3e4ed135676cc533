"""The fields of models: their kinds, what their values look like, and what can be asked of them. No principal."""
