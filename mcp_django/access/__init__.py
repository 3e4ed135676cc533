"""Authentication, and the one decision about what a principal may use.

Imports models, hooks, db, exchange, protocol, events and conf, and nothing that knows tools, prompts or resources.
"""
