"""Answers messages: dispatch, the method table, and a module for each family of methods.

It also runs tasks in the background, and changes that a person has approved. Each request is an Exchange that a
transport has made. It imports push, bridge and the packages below them.
"""
