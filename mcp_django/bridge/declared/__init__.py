"""What a project declares about a model, in ``ModelMCP`` or in its ``ModelAdmin``, and which fields hold secrets."""
