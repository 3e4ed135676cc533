"""Where handlers run: in the bounded pool of threads, or on the event loop, where no thread waits for them.

It knows no principal, but counts by the key of one.
"""
