"""An ``mcp.py`` for an app, as its admin has it: what holds without it, and what may be changed there."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db import models
from django.utils import translation

from mcp_django.bridge.declared.secrets import is_secret_field, why_hidden
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.console.review import inventory
from mcp_django.exchange.scopes import SCOPES
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

#: The width that ruff and black keep by default.
_WIDTH = 88
#: Names that a suggestion shows.
_MOST = 3

_TOOL = '''
# A question that no list of rows answers can be a tool:
#
# @mcp_django.tool(read_only=True)
# def how_many(request) -> int:
#     """How many rows of {model} the user sees."""
#     return mcp_django.site.get_queryset({model}, request).count()
'''


def write(app: AppConfig, site: MCPSite, *, is_inside: bool = True) -> str:
    """The text of the file. ``is_inside``: whether it will be a module of the app itself.

    Each class in it is of a model that the admin shows already, and has no option: so it changes nothing.
    """
    with translation.override(settings.LANGUAGE_CODE):
        built = inventory.build(site, None, SCOPES)
        found = list(app.get_models())
        shown = [model for model in found if _is_shown(site, built, model)]
        blocks = [_block(site, built, model, is_shown=model in shown, is_inside=is_inside) for model in found]
        lines = [*_head(app, shown), *_imports(app, shown, is_inside=is_inside)]
        for block in blocks:
            lines += ["", "", *block]
        if shown:
            lines += ["", *_TOOL.format(model=shown[0].__name__).splitlines()]
    return "\n".join(lines).rstrip() + "\n"


def _is_shown(site: MCPSite, built: JSON, model: type[models.Model]) -> bool:
    """Whether it is exposed by its ModelAdmin alone."""
    declared = site.models.get(_label(model))
    is_admins = declared is not None and declared.bridged and declared.model_admin is not None
    return is_admins and _label(model) in built["models"]


def _label(model: type[models.Model]) -> str:
    return f"{model._meta.app_label.lower()}.{model._meta.model_name}"


def _head(app: AppConfig, shown: Sequence[Any]) -> Iterator[str]:
    yield f'"""What agents see of {_plain(app.verbose_name)}, and what they may do with it.'
    yield ""
    if shown:
        yield from _wrapped(
            "The classes have no options yet, so agents see what the admin shows, as they did before this file was "
            "there. Options that you may want are comments. manage.py mcp_inventory prints what agents reach."
        )
    else:
        yield from _wrapped("Nothing here is in force yet. manage.py mcp_inventory prints what agents reach, and why.")
    yield '"""'


def _imports(app: AppConfig, shown: Sequence[type[models.Model]], *, is_inside: bool) -> Iterator[str]:
    if not shown:
        return
    yield from ("", "import mcp_django", "")
    by_module: dict[str, list[str]] = {}
    for model in shown:
        by_module.setdefault(_module_of(app, model, is_inside=is_inside), []).append(model.__name__)
    for module, names in sorted(by_module.items()):
        line = f"from {module} import {', '.join(sorted(names))}"
        yield from [line] if len(line) <= _WIDTH else [
            f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")",
        ]  # fmt: skip


def _module_of(app: AppConfig, model: type[models.Model], *, is_inside: bool) -> str:
    """The module to import the model from: that of the app's models where it has the name."""
    models_module = f"{app.name}.models"
    has_it = getattr(import_module(models_module), model.__name__, None) is model
    module = models_module if has_it else model.__module__
    return module.removeprefix(app.name) if is_inside and module.startswith(f"{app.name}.") else module


def _block(site: MCPSite, built: JSON, model: type[models.Model], *, is_shown: bool, is_inside: bool) -> list[str]:
    name, label = model.__name__, _label(model)
    if is_shown:
        return list(_class(site, model, built["models"][label]))
    declared = site.models.get(label)
    if declared is not None and site.is_registered(model):
        return _commented([f"{name} is registered already, with {_plain(type(declared).__name__)}."])
    if label in built["models"]:
        shown_by = _plain(type(declared.declared_by).__name__) if declared is not None else "an inline"
        return _commented([f"{name} is shown by the inline {shown_by}, and takes its options from it."])
    why = inventory.unexposed(site).get(label) or why_hidden(model) or "it has no ModelAdmin"
    if why_hidden(model):
        return _commented([f"{name} is not shown: {_plain(why)}. Only a class that names its fields would show it."])
    return [*_commented([f"{name} is not shown: {_plain(why)}. To show it:"]), "#", *_registering(model, is_inside)]


def _registering(model: type[models.Model], is_inside: bool) -> Iterator[str]:
    # What a relation leads to may be hidden, and then so is the relation.
    own = [field for field in model._meta.concrete_fields if field.primary_key or not field.is_relation]
    names = [field.name for field in own if not is_secret_field(field)]
    yield f"# @mcp_django.register({model.__name__})"
    yield f"# class {model.__name__}MCP(mcp_django.ModelMCP):"
    yield f"#     fields = {_listed(names[:_MOST])}"


def _class(site: MCPSite, model: type[models.Model], entry: JSON) -> Iterator[str]:
    """The class of a model that the admin shows, without options, and the options that it may have."""
    declared = site.models[_label(model)]
    admin = _plain(type(declared.model_admin).__name__)
    yield f"@mcp_django.register({model.__name__})"
    yield f"class {model.__name__}MCP(mcp_django.ModelMCP):"
    yield f'    """{_plain(model._meta.verbose_name_plural)[:60]}, as {admin} shows them."""'
    yield ""
    for text in _notes(site, model, entry):
        yield from _commented([text], "    ")
    yield "    #"
    for text, option in _suggestions(model, entry):
        yield from _commented([text], "    ")
        yield f"    # {option}"


def _notes(site: MCPSite, model: type[models.Model], entry: JSON) -> Iterator[str]:
    """What holds now."""
    read = [*entry["fields"], *entry["computed"], *entry["relations"]]
    yield f"Agents read: {', '.join(map(_plain, read))}."
    reasons: dict[str, list[str]] = {}
    for name, why in entry["hidden"].items():
        reasons.setdefault(_plain(why or "no reason is known"), []).append(_plain(name))
    for why, hidden in reasons.items():
        yield f"Not read: {', '.join(hidden)} ({why})."
    if entry["writes"]:
        yield f"Agents may write, as far as their users may: {', '.join(entry['writes'])}."
    actions = [tool for tool in site.tools.values() if isinstance(tool, ActingTool) and tool.model_mcp.model is model]
    if actions:
        names = ", ".join(tool.name for tool in actions)
        yield f"Actions, which start switched off (manage.py mcp_tools --on NAME): {names}."


def _suggestions(model: type[models.Model], entry: JSON) -> Iterator[tuple[str, str]]:
    """Options with what they are for, each as it may be uncommented."""
    name = _plain(model._meta.verbose_name)
    yield "What a row is, for agents:", f'description = "{name[:50]}: …"'
    key = model._meta.pk.name
    columns = [one for one in entry["fields"] if one != key and one.isidentifier()]
    if columns:
        yield "What agents are not to read:", f"exclude = {_listed(columns[-1:])}"
    texts = [one.name for one in model._meta.concrete_fields if type(one) in (models.CharField, models.TextField)]
    if not entry["search"] and (searched := [one for one in texts if one in columns]):
        yield "What a search looks in:", f"search_fields = {_listed(searched[:_MOST])}"
    stamps = [one.name for one in model._meta.concrete_fields if getattr(one, "auto_now", False)]
    times = [one for one in stamps if one in columns and isinstance(model._meta.get_field(one), models.DateTimeField)]
    if times:
        yield "When a row was changed last:", f'last_modified_field = "{times[0]}"'
    if entry["writes"]:
        yield "What agents may write, False for nothing:", f"writable = {_listed(list(entry['writes'])[:1])}"
        yield "Who must agree to it:", f'consent = {{"{next(iter(entry["writes"]))}": "ask"}}'


def _listed(names: Iterable[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)


# Texts.


def _plain(text: object) -> str:
    """A text in one line that ends no docstring and no comment, whatever the project calls its things."""
    return printable(" ".join(str(text).split())).replace("\\", "/").replace('"', "'")


def _commented(texts: Iterable[str], indent: str = "") -> list[str]:
    return [line for text in texts for line in _wrapped(text, f"{indent}# ")]


def _wrapped(text: str, prefix: str = "") -> list[str]:
    wrapper = textwrap.TextWrapper(_WIDTH, prefix, prefix, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)
