"""Answering a message: dispatch, the table of methods, a module for each family of them, and background runs of tasks.

Imports every room below it. Transports hand it an Exchange; it knows nothing of bytes, headers or sockets.
"""
