"""Every URI kind that reads a model, and the query tool whose override also governs it.

An administrator who switches find_records off, or leaves it to members of some groups, means the rows and not only the
tool: the same rows are behind URIs, subscriptions, completions and suggestions. Each of them asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
    from mcp_django.bridge.resources.uris import Target

#: A way to read a model: the kinds of ``db://`` URIs. Suggested keys and found rows are those of a collection.
Way = Literal["collection", "aggregate", "record", "file", "schema"]

#: Way → the query tool that gives the same.
TOOLS: Mapping[Way, str] = {
    "collection": "find_records",
    "aggregate": "aggregate_records",
    "record": "get_record",
    "file": "get_record",
    "schema": "describe_models",
}
#: The ways that show single rows.
_OF_ROWS: frozenset[Way] = frozenset({"collection", "record", "file"})


def is_open(model: ModelRights, way: Way) -> bool:
    """Whether the principal may read the model in this way: by its own options, and as administrators decided."""
    return has(model.model_mcp, way) and model.rights.may_use(TOOLS[way])


def has(model_mcp: ModelMCP, way: Way) -> bool:
    """Whether the model can be read in this way at all: its rows may be shown in groups alone."""
    return model_mcp.rows or way not in _OF_ROWS


def reach(rights: Rights, target: Target) -> ModelRights | None:
    """The rights on the model of a URI; None if the principal may not read that model in the way of the URI."""
    model = rights.of_label(target.label)
    return model if model is not None and is_open(model, target.kind) else None


def models(rights: Rights, way: Way) -> list[ModelRights]:
    """The models that the principal may read in this way, in the order of their labels."""
    return [model for model in rights.models() if is_open(model, way)]
