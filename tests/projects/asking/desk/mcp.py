from mcp_django import ModelMCP, register
from tests.projects.asking.desk.models import Item


@register(Item)
class ItemMCP(ModelMCP):
    writable = ("update",)
