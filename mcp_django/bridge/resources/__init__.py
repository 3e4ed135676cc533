"""Models as resources: the fields and rows that a principal may read, queries for them, and their values as JSON."""
