"""Answers messages: dispatch, the method table, a module for each family of methods, and background runs of tasks.

It imports push, sites and the rooms below them. Each request is an Exchange that a transport has made.
"""
