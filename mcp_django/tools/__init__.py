"""The tools that agents call: the query tools, admin actions, and functions that a project declares.

Imports signatures, tasks, resources, access and the rooms below them, and knows no prompts, sites or transports.
"""
