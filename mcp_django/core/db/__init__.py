"""How our own queries are put to a database: with a limit of time, read-only, and so that they can be stopped.

It knows no model of ours and no principal.
"""
