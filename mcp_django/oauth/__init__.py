"""Logging in by OAuth: an optional app that lets a person connect any client to the server (RFC 6749, 8414, 9728).

It imports any of the packages below it.
"""
