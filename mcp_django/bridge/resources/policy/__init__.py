"""The field policy: which models, fields and rows a principal may read. Everything that reads a row asks it."""
