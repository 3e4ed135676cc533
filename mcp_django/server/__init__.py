"""Answers messages: dispatch, the method table, a module for each family of methods, and background runs of tasks.

It imports push, bridge and the packages below them. Each request is an Exchange that a transport has made.
"""
