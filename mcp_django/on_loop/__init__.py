"""Bodies of asynchronous functions, which run on the event loop: no thread waits for them.

It imports db, protocol for its errors, compat and conf. It knows no principal, but counts by the key of one.
"""
