"""The lines of code that open a model or a field which code does not expose, for people to copy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_django.bridge.declared.options import ModelMCP
from mcp_django.bridge.declared.secrets import ABOUT_RIGHTS, why_hidden
from mcp_django.bridge.sites import MCPSite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import Model


def lines_for_rights(site: MCPSite) -> str:
    """What registers the models of users and rights that the admin has and agents do not get; empty without such."""
    exposed = {model_mcp.model for model_mcp in site.models.values()}
    return _lines([one for one in site.model_admins if one not in exposed and why_hidden(one) is ABOUT_RIGHTS])


def _lines(models: Sequence[type[Model]]) -> str:
    if not models:
        return ""
    by_module = defaultdict(list)
    for model in models:
        by_module[model.__module__].append(model.__name__)
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(by_module.items())]
    registers = [f"site.register({model.__name__})" for model in models]
    return "\n".join([*imports, "from mcp_django import site", "", *registers])


@dataclass(frozen=True)
class FieldCure:
    """Where code names a field that is to be opened."""

    #: The class of the project that holds the option, with its module; empty where the line registers the model.
    owner: str
    option: str
    line: str
    #: Whether such a line stands in the code already.
    is_registered: bool


def cure_of(model_mcp: ModelMCP) -> FieldCure:
    """How a field of this model is opened."""
    cls = type(model_mcp)
    # Two ways to name fields do not go together.
    option = "extra_fields" if model_mcp.fields is None else "fields"
    # site.register makes a class of the options that it is given.
    is_made = cls.__module__ == MCPSite.__module__
    own = cls.__mro__[1] if is_made else cls
    is_registered = not model_mcp.bridged
    is_owner = is_registered and not is_made and own is not ModelMCP
    with_class = f"{own.__name__}, " if is_registered and own is not ModelMCP else ""
    line = f'site.register({model_mcp.opts.object_name}, {with_class}{option}=["…"])'
    return FieldCure(f"{own.__module__}.{own.__qualname__}" if is_owner else "", option, line, is_registered)
