"""Answers messages: dispatch, the method table, a module for each family of methods, and background runs of tasks.

It imports every room below it. A transport hands it an Exchange. It knows nothing of sockets and streams.
"""
