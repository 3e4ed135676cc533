"""Authentication, and the one decision about what a principal may use.

It imports models, hooks, exchange, workers, db, protocol, events, compat and conf.
"""
