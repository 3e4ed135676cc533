"""The prompts that people pick from a menu: a project declares some, and administrators write others.

It imports signatures, completion, access and the rooms below them.
"""
