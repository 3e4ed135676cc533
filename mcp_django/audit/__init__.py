"""The audit trail: what agents asked for and what came of it, written by one thread for each process.

It imports models, exchange, protocol and core.
"""
