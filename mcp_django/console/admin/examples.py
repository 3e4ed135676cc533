"""What fills in a form of arguments for a person: example values, and what that person tried before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.models import Tool
from mcp_django.protocol.types import JSON

#: Where a session has the runs of its user, the newest first, and how much of them: a session may be a cookie.
_KEPT, _MOST_RUNS, _MOST_CHARS = "mcp_django_tries", 20, 1_500
#: Format of JSON Schema → an example of now.
_FORMATS: Mapping[str, Callable[[datetime], date | time | datetime]] = {
    "date": datetime.date,
    "date-time": lambda now: now.replace(microsecond=0),
    "time": lambda now: now.time().replace(microsecond=0),
}

#: Argument → its text, as a person types it into the form.
Typed = dict[str, str]
#: Suggests texts for the argument of this name, where these texts are typed already.
Suggest = Callable[[str, Mapping[str, str]], Sequence[str]]


# Examples.


def example_of(schema: JSON, suggest: Suggest) -> Typed:
    """An example for each argument that must be given, and for those whose schema has one.

    The schema comes first, and then what ``suggest`` gives, which is what an agent of the person may see.
    """
    properties, required = schema.get("properties", {}), schema.get("required", ())
    typed = dict.fromkeys(properties, "")
    for name, described in properties.items():
        if _is_secret(name, described) or (name not in required and "examples" not in described):
            continue
        value = _declared(described)
        typed[name] = _text(value) if value is not None else _suggested(name, described, typed, suggest)
    return {name: text for name, text in typed.items() if text}


def _declared(schema: JSON) -> Any:
    """The example, the default or a choice that the schema has; None for none."""
    variants = [schema, *schema.get("anyOf", ())]
    known = (value for one in variants for value in (*one.get("examples", ()), one.get("default"), one.get("const")))
    choices = (value for one in variants for value in one.get("enum", ()))
    return next((value for value in (*known, *choices) if value is not None), None)


def _suggested(name: str, schema: JSON, typed: Typed, suggest: Suggest) -> str:
    if suggested := suggest(name, typed):
        return suggested[0]
    one: JSON = next((one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"), {})
    if (of_now := _FORMATS.get(one.get("format", ""))) is not None:
        return of_now(timezone.localtime() if timezone.is_aware(timezone.now()) else timezone.now()).isoformat()
    return _text(one.get("minimum"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _is_secret(name: str, schema: JSON) -> bool:
    return is_secret_name(name) or bool(schema.get("writeOnly")) or schema.get("format") == "password"


# What was tried.


def keep_run(request: HttpRequest, tool: Tool, schema: JSON, typed: Typed) -> None:
    """Keep what the person has typed in that person's session, as far as it is short and looks like no secret."""
    properties = schema.get("properties", {})
    values = {name: text for name, text in typed.items() if text and not _is_secret(name, properties.get(name, {}))}
    run = [str(request.user.pk), tool.pk, values]
    runs = [run, *(one for one in _kept(request) if one != run)][:_MOST_RUNS]
    while len(json.dumps(runs)) > _MOST_CHARS:
        runs.pop()
    if values:
        request.session[_KEPT] = runs


def runs_of(request: HttpRequest, tool: Tool) -> list[Typed]:
    """What the person has typed into the form of this tool, the newest first."""
    return [dict(values) for _user, key, values in _kept(request) if key == tool.pk]


def has_tried(request: HttpRequest) -> bool:
    return bool(_kept(request))


def _kept(request: HttpRequest) -> Sequence[Any]:
    # A session that a project hands to another user has nothing for that one.
    return [one for one in request.session.get(_KEPT, ()) if one[0] == str(request.user.pk)]
