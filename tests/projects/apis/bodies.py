"""Makes the bodies of changes of what the API shows of a row, and of what ``describe_api`` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: What the description says of a field → a value of it.
_VALUES: Mapping[str, Any] = {
    "boolean": True, "integer": 1, "number": 1.5, "decimal": "1.50", "date-time": "2024-02-03T04:05:06Z",
    "date": "2024-02-03", "time": "04:05:06", "duration": "00:01:00", "email": "new@example.com", "JSON": {"a": 1},
    "URL": "https://example.com/new", "uuid": "00000000-0000-4000-8000-000000000001", "IP address": "192.0.2.1",
    "slug": "new-slug", "string": "new text", "object": {},
}  # fmt: skip
_MANY = "list of "


def bodies(operation: Any, described: Any, shown: Any, row: Any) -> Iterator[tuple[str, Any]]:
    """Bodies for an operation, each with a word for it.

    ``described`` is what ``describe_api`` says of its body, ``shown`` what GET of the same URL shows, and ``row`` a row
    of the list of the same kind.
    """
    if operation.method == "DELETE":
        yield "no body", None
        return
    yield "empty", {}
    like = shown if isinstance(shown, Mapping) else row if isinstance(row, Mapping) else {}
    if operation.method in ("PUT", "PATCH") and isinstance(shown, Mapping):
        rows = shown.get("results")
        yield "as shown", rows[:2] if isinstance(rows, list) else dict(shown)
    if isinstance(described, list) and described:
        if isinstance(described[0], Mapping):
            yield "a list", [made(described[0], like)]
    elif isinstance(described, Mapping):
        body = made(described, like)
        if body:
            yield "all fields", body
        if operation.method == "PATCH":
            text = next((name for name, value in body.items() if isinstance(value, str) and "new" in value), None)
            if text is not None:
                yield "one field", {text: body[text]}


def made(described: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each field that is described: as a row has it, but for texts, which are often unique."""
    found = {}
    for name, words in described.items():
        value = _value(words, like.get(name))
        if value is not None and name != "…":
            found[name] = value
    return found


def _value(words: Any, shown: Any) -> Any:
    if isinstance(words, Mapping):
        return made(words, shown if isinstance(shown, Mapping) else {})
    if isinstance(words, list):
        inner = shown[0] if isinstance(shown, list) and shown else {}
        return [_value(words[0], inner)] if words else []
    kind = str(words).partition(",")[0]
    if kind.startswith(_MANY):
        inner = shown[0] if isinstance(shown, list) and shown else None
        value = _value(kind.removeprefix(_MANY), inner)
        return [] if value is None else [value]
    if kind == "string":
        return f"new {shown}"[:20] if isinstance(shown, str) else _VALUES[kind]
    if kind in _VALUES and shown is None:
        return _VALUES[kind]
    if " | " in kind and not isinstance(shown, str | int):
        return kind.partition(" | ")[0]
    return _key(shown)


def _key(shown: Any) -> Any:
    """What names a row in a body, of what a serializer shows of it."""
    if isinstance(shown, Mapping):
        return next((shown[name] for name in ("id", "pk", "slug", "value", "url") if name in shown), None)
    return [_key(one) for one in shown] if isinstance(shown, list) else shown
