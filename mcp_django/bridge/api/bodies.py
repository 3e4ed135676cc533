"""Reads the body that an agent gives: names that the API would ignore are refused, and uploads become files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.api.formats import takes_file_alone
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.bridge.uploads.files import NO_UPLOAD, SCHEME, open_upload
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.bridge.api.describing import Body, Description
    from mcp_django.bridge.api.readings import Reading
    from mcp_django.exchange.exchange import Exchange

#: The largest body. What is larger is a file, which is uploaded first.
_MOST_BYTES = 1_000_000
_FILE = "file"


def checked(description: Description, given: Any, reading: Reading) -> list[str]:
    """Returns what to note. ``reading`` is what the operation shows now.

    What cannot be changed may be sent back as it is; of a list of records it is not known what they are, and so it is
    only noted. Raises ToolError for names that the operation does not take.
    """
    name = description.operation.name
    if given is None:
        return []
    if len(encode(given)) > _MOST_BYTES:
        raise ToolError(f"The body is larger than {_MOST_BYTES:,} bytes. Nothing was changed.", reason="LIMIT_EXCEEDED")
    body = description.body
    if body is None:
        raise ToolError(f"Invalid arguments for {name}.", [field_error("body", f"is not taken by {name}.")])
    if errors := list(_errors(description, body, given, reading)):
        raise ToolError(f"Invalid arguments for {name}.", errors)
    ignored = isinstance(given, list) and sorted(
        {key for _, one in _objects(given) for key in body.read_only & one.keys()}
    )
    return [f"What cannot be changed is ignored: {', '.join(ignored)}."] if ignored else []


def _errors(description: Description, body: Body, given: Any, reading: Reading) -> Iterator[FieldError]:
    before = reading.record if isinstance(reading.record, Mapping) else {}
    shown = description.operation.exposure.show_secrets
    yield from _secrets(given, "body", shown, before)
    for place, one in _objects(given):
        for name in one:
            where = f"{place}.{printable(name)[:100]}"
            if name not in shown and is_secret_name(name):
                continue
            if name in body.fields:
                yield from _nested(body.fields[name], one[name], where, before.get(name) if place == "body" else None)
            elif name in body.read_only:
                is_same = name in reading.moving or (name in before and before[name] == one[name])
                if place == "body" and not is_same:
                    yield field_error(where, "cannot be changed.", one[name])
            elif not body.is_open:
                yield field_error(where, unknown_name("field", name, list(body.fields)), one[name])


def _objects(given: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(given, dict):
        yield "body", given
    elif isinstance(given, list):
        yield from ((f"body.{index}", one) for index, one in enumerate(given) if isinstance(one, dict))


def _nested(fields: Any, given: Any, place: str, before: Any) -> Iterator[FieldError]:
    """The names that a nested serializer does not take, but for what is sent back as it was ``before``."""
    if isinstance(fields, list) and isinstance(given, list):
        shown = before if isinstance(before, list) else []
        for index, one in enumerate(given):
            was = shown[index] if index < len(shown) else None
            yield from _nested(fields[0] if fields else None, one, f"{place}.{index}", was)
    elif isinstance(fields, dict) and isinstance(given, dict):
        known = before if isinstance(before, dict) else {}
        for name, value in given.items():
            where = f"{place}.{printable(name)[:100]}"
            if name in fields:
                yield from _nested(fields[name], value, where, known.get(name))
            elif name not in ("id", "pk", "url") and not (name in known and known[name] == value):
                yield field_error(where, unknown_name("field", name, list(fields)), value)


def _secrets(
    given: Any, place: str, shown: Collection[str], before: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[FieldError]:
    """What is named like a secret, at every depth. What ``before`` shows may be sent back: a flag, or nothing."""
    if isinstance(given, list):
        for index, one in enumerate(given):
            yield from _secrets(one, f"{place}.{index}", shown)
    elif isinstance(given, dict):
        for name, one in given.items():
            where = f"{place}.{printable(name)[:100]}"
            is_same = name in before and before[name] == one
            if name not in shown and is_secret_name(name) and not is_same:
                yield field_error(where, "is named like a secret, which agents do not set. Leave it out.")
            else:
                yield from _secrets(one, where, shown)


def with_files(exchange: Exchange, description: Description, given: Any) -> Any:
    """The body with the files of the uploads that it names. Raises ToolError."""
    body = description.body
    if given is not None and takes_file_alone(description.operation):
        given_file = given.values() if isinstance(given, dict) and len(given) == 1 else ()
        if not any(isinstance(one, str) and one.startswith(SCHEME) for one in given_file):
            wrong = field_error("body", f"is one file here. Upload it, and give its {SCHEME} URI under one name.")
            raise ToolError(f"Invalid arguments for {description.operation.name}.", [wrong])
    if body is None or not isinstance(given, dict):
        return given
    found: JSON = dict(given)
    errors: list[FieldError] = []
    for name, value in given.items():
        if not _takes_files(body, name):
            continue
        try:
            if isinstance(value, list):
                found[name] = [_opened(exchange, one) for one in value]
            else:
                found[name] = _opened(exchange, value)
        except LookupError as error:
            errors.append(field_error(f"body.{name}", NO_UPLOAD, str(error.args[0])))
    if errors:
        raise ToolError(f"Invalid arguments for {description.operation.name}.", errors)
    return found


def _takes_files(body: Body, name: str) -> bool:
    said = str(body.fields.get(name, "" if body.is_open else "-"))
    return said in ("", "any") or said.removeprefix("list of ").startswith(_FILE)


def _opened(exchange: Exchange, value: Any) -> Any:
    """The file of an upload; any other value as it is. Raises LookupError with the URI of one that is not there."""
    return open_upload(exchange, value) if isinstance(value, str) and value.startswith(SCHEME) else value
