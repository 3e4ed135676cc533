"""The requests that are compared, what they are answered with over HTTP, and when an answer of a tool is alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

from django.apps import apps
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.urls import Resolver404, resolve
from rest_framework.test import APIClient

#: The project is not typed.
CASES = import_module("tests.api.project.requests").CASES

USERS = ("anna", "stella")
#: Cases of what HTTP alone has: formats of paths, bodies that are no JSON, and names that the API ignores.
_OF_HTTP = ("with a format", "JSON is not read", "a read-only field is ignored", "a field that staff alone has")
#: Keys whose values name the host, or a thread.
_OF_HOST = ("next", "previous", "url", "file", "context", "thread")


@dataclass(frozen=True)
class Asked:
    """A case with the keys of the rows."""

    case: Any
    path: str
    query: Mapping[str, Any]
    match: Any
    rows: SimpleNamespace

    @property
    def operation(self) -> tuple[str, str]:
        return str(self.case.method), str(self.match.route)

    @property
    def is_safe(self) -> bool:
        return bool(self.case.method == "GET")

    @property
    def kwargs(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in self.match.captured_kwargs.items()}

    def body(self) -> Any:
        """The body, with files that nobody has read."""
        return self.case.data(self.rows)

    def send(self, http: Any) -> Any:
        url = quote(self.path) + (f"?{urlencode(self.query, doseq=True)}" if self.query else "")
        if self.is_safe:
            return http.get(url)
        return getattr(http, self.case.method.lower())(url, data=self.body(), format=self.case.format)


def asked(rows: SimpleNamespace) -> list[Asked]:
    """The cases whose path leads to a view."""
    found = []
    for case in CASES:
        if case.note in _OF_HTTP or "format" in case.query:
            continue
        with suppress(Resolver404):
            path = case.path(rows)
            found.append(Asked(case, path, case.parameters(rows), resolve(path), rows))
    return found


@dataclass(frozen=True)
class Answer:
    """What a call was answered with, and what it left in the database until that was taken back."""

    done: bool
    value: Any
    #: Of HTTP, that the user may not do it, or may not see it.
    forbidden: bool = False
    effect: Any = None


def is_forbidden(status: int, one: Asked) -> bool:
    """Whether an answer of HTTP says that the user may not do it, or may not see it. 404 may also mean a page."""
    return status in (401, 403) or (status == 404 and not one.query)


def taken_back(call: Callable[[], tuple[Any, ...]], *, is_safe: bool) -> Answer:
    """What a call answers; what it has written is taken back."""
    cache.clear()
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    with transaction.atomic():
        try:
            answer = Answer(*call())
            return answer if is_safe else replace(answer, effect=_stored())
        finally:
            transaction.set_rollback(True)
            for signal in signals:
                signal.connect(close_old_connections)


def over_http(user: Any, one: Asked) -> Answer:
    client = APIClient(raise_request_exception=False, SERVER_NAME="localhost")
    client.force_login(user)

    def call() -> tuple[Any, ...]:
        try:
            response = one.send(client)
        except SystemExit:
            return False, None
        return 200 <= response.status_code < 300, _value(response), is_forbidden(response.status_code, one)

    return taken_back(call, is_safe=one.is_safe)


def _value(response: Any) -> Any:
    if response.streaming:
        chunks = iter(response)
        return b"".join(next(chunks, b"") for _ in range(10)).decode()
    return parsed(response.content.decode())


def parsed(text: str) -> Any:
    """The value of a JSON text; any other text is itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def alike(expected: Answer, got: Answer, *, is_safe: bool) -> bool:
    """Whether a tool did what HTTP does: the same refusals, the same values, the same rows in the database."""
    if not (expected.done and got.done):
        return expected.done is got.done
    if not is_safe:
        return bool(expected.effect == got.effect)
    inside = got.value.values() if isinstance(got.value, dict) else got.value if isinstance(got.value, list) else ()
    values = [got.value, *inside]
    return _comparable(expected.value) in [_comparable(one) for one in values]


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if name in _OF_HOST else _comparable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    return value


def _stored() -> list[str]:
    """The rows of the project, without what is made anew each time."""
    models = [*apps.get_app_config("api_project").get_models(), *apps.get_app_config("auth").get_models()]
    return sorted(
        f"{model._meta.label} {row}" for model in models for row in model._base_manager.values_list(*_fields(model))
    )


def _fields(model: Any) -> list[str]:
    return [
        field.attname
        for field in model._meta.concrete_fields
        if not (callable(field.default) or getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False))
        and field.name not in ("password", "last_login", "file")
    ]


def works(
    rows: SimpleNamespace, call: Callable[[str, Asked], tuple[bool, Any]], prepare: Callable[[], object]
) -> dict[str, Any]:
    """Which operations work for each user as over HTTP, of those that HTTP answers at least once; in each case.

    HTTP is asked before ``prepare``, and once more after it.
    """
    cases = asked(rows)
    calls = [(name, one) for name in USERS for one in cases]
    expected = {(name, id(one)): over_http(getattr(rows, name), one) for name, one in calls}
    counted = {one.operation for name, one in calls if expected[name, id(one)].done}
    prepare()
    broken = [one for name, one in calls if over_http(getattr(rows, name), one).done != expected[name, id(one)].done]
    failing: dict[tuple[str, str], str] = {}
    forbidden = []
    for name, one in calls:
        if one.operation not in counted:
            continue
        known = expected[name, id(one)]
        got = taken_back(lambda name=name, one=one: call(name, one), is_safe=one.is_safe)  # type: ignore[misc]
        if not alike(known, got, is_safe=one.is_safe):
            if got.done and known.forbidden:
                forbidden.append(f"{name}, {one.case.method} {one.path}")
            failing.setdefault(one.operation, f"{name}, {one.path}: {known.value!r:.150} is not {got.value!r:.400}")
    return {
        "work": len(counted - failing.keys()), "of": len(counted), "forbidden": forbidden, "broken": len(broken),
        "requests": len(calls), "failing": {" ".join(key): why for key, why in failing.items()},
    }  # fmt: skip
