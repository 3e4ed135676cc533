"""Authentication, and the one decision about what a principal may use.

It imports audit, models, exchange and the packages below them.
"""
