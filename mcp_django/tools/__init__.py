"""The tools that agents call: the query tools, admin actions, and functions that a project declares.

It imports signatures, tasks, resources, access and the rooms below them.
"""
