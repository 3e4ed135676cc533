"""Views of django-ninja: what is behind them, and whom they let in."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest
from django.test import RequestFactory
from django.urls import URLPattern
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError
from ninja.pagination import PageNumberPagination, paginate
from ninja.security import HttpBearer

from mcp_django.core.compat.ninja_views import (
    details_of,
    is_ninja_api,
    operations_behind,
    page_size_of,
    refused_by,
    refused_by_authentication,
)

_ran: list[int] = []


class Amount(Schema):
    number: int


class Bearer(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> str | None:
        if token == "broken":
            raise HttpError(503, "No logins today.")
        return token if token == "right" else None


class AsyncBearer(Bearer):
    async def authenticate(self, request: HttpRequest, token: str) -> str | None:  # type: ignore[override]
        return token if token == "right" else None


@pytest.fixture(params=[Bearer, AsyncBearer])
def operation(request: pytest.FixtureRequest) -> Any:
    """That of a view with authentication and a body, out of the document."""
    api = NinjaAPI(urls_namespace=f"compat-{request.node.name}")
    _ran.clear()

    def give(request: HttpRequest, amount: Amount) -> int:
        _ran.append(amount.number)
        return amount.number

    async def give_later(request: HttpRequest, amount: Amount) -> int:
        return give(request, amount)

    api.post("/amounts", auth=request.param(), include_in_schema=False)(give if request.param is Bearer else give_later)
    (found,) = [one for pattern in api.urls[0] for one in operations_of(pattern) if one.methods == ["POST"]]
    return found


def operations_of(pattern: Any) -> Any:
    return operations_behind(pattern.callback) if isinstance(pattern, URLPattern) else ()


def sent(token: str, body: str = '{"number": 3}') -> HttpRequest:
    return RequestFactory().post("/", body, "application/json", headers={"Authorization": f"Bearer {token}"})


def test_the_operations_behind_a_view_are_found_and_described(operation: Any) -> None:
    details, schemas = details_of(operation)

    assert operation.view_func.__name__ in ("give", "give_later")
    assert details["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Amount"}
    assert schemas["Amount"]["required"] == ["number"]
    assert operations_behind(sent) == operations_behind(None) == ()
    assert is_ninja_api(operation.api) and not is_ninja_api(operation)


def test_the_length_of_a_page_is_that_of_the_paginator(operation: Any) -> None:
    def rows(request: HttpRequest) -> list[int]:
        return []

    assert page_size_of(operation) is None
    assert page_size_of(SimpleNamespace(view_func=paginate(PageNumberPagination, page_size=7)(rows))) == 7


def test_whom_an_operation_does_not_let_in_and_what_it_does_not_take_is_said_without_running_it(operation: Any) -> None:
    answers = {
        ("right", '{"number": 3}'): None, ("wrong", '{"number": 3}'): 401, ("right", '{"number": "x"}'): 422,
        ("right", "no JSON"): 400,
    }  # fmt: skip

    found = {case: refused_by(operation, sent(*case), {}) for case in answers}

    assert {case: one and one.status_code for case, one in found.items()} == answers
    assert [refused_by_authentication(operation, sent(token)) is None for token in ("right", "wrong")] == [True, False]
    assert _ran == []
    # Control: it runs otherwise.
    run = operation.run if operation.view_func.__name__ == "give" else async_to_sync(operation.run)
    assert json.loads(run(sent("right")).content) == 3 and _ran == [3]
