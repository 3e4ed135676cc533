"""The documents in which a client reads how to log in, and who may read them."""

from __future__ import annotations

from itertools import product
from typing import Any

from django.test import Client, override_settings

from mcp_django.models import Tool
from tests.oauth.flow import ISSUER, RESOURCE
from tests.oauth.test_flow import call
from tests.support.data import Users

SERVER: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/mcp/authorize",
    "token_endpoint": f"{ISSUER}/mcp/token",
    "registration_endpoint": f"{ISSUER}/mcp/register",
    "revocation_endpoint": f"{ISSUER}/mcp/revoke",
    "scopes_supported": ["read", "actions"],
    "response_types_supported": ["code"],
    "response_modes_supported": ["query"],
    "grant_types_supported": ["authorization_code", "refresh_token"],
    "token_endpoint_auth_methods_supported": ["none"],
    "revocation_endpoint_auth_methods_supported": ["none"],
    "code_challenge_methods_supported": ["S256"],
    "authorization_response_iss_parameter_supported": True,
    "client_id_metadata_document_supported": True,
    "prompt_values_supported": ["none", "login", "consent", "select_account"],
    "request_parameter_supported": False,
    "request_uri_parameter_supported": False,
    "claims_parameter_supported": False,
    "jwks_uri": f"{ISSUER}/mcp/keys",
    "subject_types_supported": ["public"],
    "id_token_signing_alg_values_supported": ["RS256"],
}


def test_the_document_of_the_endpoint(users: Users, client: Client) -> None:
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        assert client.get(path).json() == {
            "resource": RESOURCE,
            "authorization_servers": [ISSUER],
            "scopes_supported": ["read", "actions"],
            "bearer_methods_supported": ["header"],
            "resource_name": "django",
        }


def test_the_document_of_the_authorization_server(users: Users, client: Client) -> None:
    for mode, name in product(["known", "open", "off"], ["oauth-authorization-server", "openid-configuration"]):
        with override_settings(MCP={"OAUTH_REGISTRATION": mode}):
            document = client.get(f"/.well-known/{name}").json()
        left_out = {"registration_endpoint"} if mode == "off" else set()
        assert document == {member: value for member, value in SERVER.items() if member not in left_out}
    assert client.get("/mcp/keys").json() == {"keys": []}


def test_clients_ask_for_actions_only_where_one_is_switched_on(users: Users, client: Client) -> None:
    def scopes() -> tuple[str, Any]:
        challenge = call()["WWW-Authenticate"]
        return challenge.partition("scope=")[2], client.get("/.well-known/oauth-protected-resource").json()[
            "scopes_supported"
        ]

    on = scopes()
    for tool in Tool.objects.filter(name__startswith="flights_flight_mark_"):
        tool.enabled = False
        tool.save()

    assert on == ('"read actions"', ["read", "actions"])
    assert scopes() == ('"read"', ["read"])


# Other origins.


DOCUMENTS = ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource",
             "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/mcp/keys"]  # fmt: skip
FORMS = ["/mcp/token", "/mcp/register", "/mcp/revoke"]
METHODS = {**dict.fromkeys(DOCUMENTS, "GET, HEAD"), **dict.fromkeys(FORMS, "POST")}


@override_settings(MIDDLEWARE=[])
def test_a_program_in_a_browser_may_ask_from_every_origin(db: None, client: Client) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for path, method in product(METHODS, ["OPTIONS", "GET", "POST"]):
        answer = client.generic(method, path, headers={"Origin": "https://app.example", **asked})

        assert {name: value for name, value in answer.headers.items() if name.startswith(("Access-", "X-"))} == {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Allow-Methods": METHODS[path],
            "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
            "X-Content-Type-Options": "nosniff",
            **({"Access-Control-Max-Age": "600"} if method == "OPTIONS" else {}),
        }
        if method == "OPTIONS":
            assert (answer.status_code, answer.content) == (204, b"")
