"""The prompts that people pick from a menu: a project declares some, and administrators write others.

Imports signatures, resources, completion, access and the rooms below them, and knows no tools, sites or transports.
"""
