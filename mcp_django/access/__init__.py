"""Authentication, and the one decision about what a principal may use.

It imports audit, models, hooks, exchange, workers, db, protocol, events, compat, memory, types and conf.
"""
