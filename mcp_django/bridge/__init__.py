"""What Django has, as what MCP has: models as resources, admin actions as tools, admin forms as writes.

It imports access and the packages below it. ``sites`` puts the parts together.
"""
