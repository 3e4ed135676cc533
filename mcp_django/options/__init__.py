"""What a project declares of a model, on its ModelMCP or its ModelAdmin.

Imports the rules for secrets and nothing else of ours: what is declared does not depend on who asks.
"""
