"""Models as resources: which fields and rows a principal may read, how they are asked for, and how they are written.

Imports access, options, the database room and what stands below them; it knows no tool, no method and no transport.
"""
