"""Models as resources: the fields and rows that a principal may read, queries for them, and their values as JSON.

Imports access, completion, options and the rooms below them. It knows no tool, no method of the protocol, no transport.
"""
