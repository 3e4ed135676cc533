"""Models as resources: the fields and rows that a principal may read, queries for them, and their values as JSON.

It imports access, completion, options and the rooms below them.
"""
