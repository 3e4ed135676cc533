"""``mcp_django.oauth.well_known`` beside the project's own documents, and below a SCRIPT_NAME."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.test.utils import override_script_prefix
from django.urls import include, path

#: The paths at which the project's own view was called.
called: list[str] = []


def own_document(request: HttpRequest, name: str) -> HttpResponse:
    called.append(request.path)
    return HttpResponse(f"The project's own {name}.")


urlpatterns = [
    path("staff/", include("mcp_django.urls")),
    path("shop/.well-known/<str:name>", own_document),
    path("", include("mcp_django.oauth.well_known")),
]


@pytest.fixture(autouse=True)
def beside_the_project() -> Iterator[None]:
    called.clear()
    with override_settings(ROOT_URLCONF=__name__):
        yield


def test_calling_a_view_of_the_project_by_the_path_of_a_document(db: None, client: Client) -> None:
    for asked in (
        "oauth-authorization-server/shop", "openid-configuration/shop/", "oauth-protected-resource/shop/mcp",
    ):  # fmt: skip
        answer = client.get(f"/.well-known/{asked}")
        assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
    assert called == []

    own = client.get("/shop/.well-known/oauth-authorization-server")
    assert (own.status_code, called) == (200, ["/shop/.well-known/oauth-authorization-server"])


@override_script_prefix("/app/")
def test_below_a_script_name_the_documents_name_it(db: None) -> None:
    expected = {
        "oauth-protected-resource/staff/mcp": ("resource", "http://testserver/app/staff/mcp"),
        "oauth-protected-resource": ("resource", "http://testserver/app/staff/mcp"),
        "oauth-authorization-server/staff": ("issuer", "http://testserver/app/staff"),
        "openid-configuration/staff": ("token_endpoint", "http://testserver/app/staff/mcp/token"),
    }
    client = Client(SCRIPT_NAME="/app")

    documents = {asked: client.get(f"/.well-known/{asked}").json() for asked in expected}

    assert {asked: (name, documents[asked].get(name)) for asked, (name, _) in expected.items()} == expected
