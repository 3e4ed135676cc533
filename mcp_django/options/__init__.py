"""The options of a model: what a project declares on its ModelMCP or its ModelAdmin.

Imports the rules for secrets, ``compat`` and ``types``: options are the same for every principal.
"""
