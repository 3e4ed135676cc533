"""Authentication, and the one decision about what a principal may use.

Imports models, hooks, db, exchange, events, protocol, conf and types: nothing that knows tools, prompts or resources.
"""
