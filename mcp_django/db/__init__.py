"""How our own queries are put to a database: with a limit of time, read-only, and so that they can be stopped.

Imports the protocol's errors and the settings. It knows no model of ours and nobody who asks.
"""
