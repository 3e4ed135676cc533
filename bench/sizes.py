"""What an agent's context is charged for: the list of tools, and the rows of an answer."""

from __future__ import annotations

import json

from django.apps.registry import Apps
from django.db import models
from django.test import override_settings

from bench.contestants import MODEL, PAGE, call, exchange_of
from bench.project import Caller
from bench.questions import FIND
from mcp_django import MCPSite
from mcp_django.protocol.jsonrpc import encode
from mcp_django.server.tools import list_tools

#: The models of a shop of some size.
_SHOP = {
    "catalog": "Brand Category Collection Product ProductImage ProductVariant Review Supplier",
    "customers": "Address Company Contact Customer CustomerGroup LoyaltyAccount",
    "orders": "Cart CartItem Discount GiftCard Invoice Order OrderItem Payment Refund Return",
    "warehouse": "PurchaseOrder Shipment StockLevel StockMovement StockTake Warehouse",
}
_MODELS = sum(len(names.split()) for names in _SHOP.values())


def tool_list_bytes(caller: Caller) -> int:
    """The answer to tools/list of a site that exposes thirty models, whose caller sees them all."""
    registry = Apps()
    with override_settings(MCP={"EXPOSE_ADMIN": False}):
        site = MCPSite("shop")
        for app_label, names in _SHOP.items():
            for name in names.split():
                meta = type("Meta", (), {"app_label": app_label, "apps": registry})
                fields = {"name": models.CharField(max_length=100), "created_at": models.DateTimeField()}
                model = type(name, (models.Model,), {"__module__": __name__, "Meta": meta, **fields})
                site.register(model, fields="__all__")
        assert len(site.models) == _MODELS == 30
        return len(encode(list_tools(exchange_of(caller, "", {}, site=site))))


def row_bytes(caller: Caller) -> tuple[int, int]:
    """The first rows as the tool writes them, and as a list of objects that is as compact."""
    content = call(caller, FIND, {"model": MODEL, "limit": PAGE})
    objects = [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]
    return len(encode(content)), len(json.dumps(objects, separators=(",", ":")).encode())
