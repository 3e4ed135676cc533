"""The documents by which clients find the authorization server and what it can do: RFC 9728, RFC 8414, OpenID."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_django.conf import get_conf
from mcp_django.oauth import paths
from mcp_django.oauth.openid import PROMPTS, RESPONSE_MODES
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


def of_resource(site: MCPSite, issuer: str, scopes: Sequence[str]) -> JSON:
    """The metadata of the endpoint (RFC 9728 §2). ``scopes`` are those to ask for; never ``offline_access``."""
    name = site.implementation()
    return {
        "resource": paths.resource_at(issuer),
        "authorization_servers": [issuer],
        "scopes_supported": list(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": str(name.get("title") or name["name"]),
    }


def of_server(issuer: str, scopes: Sequence[str]) -> JSON:
    """The metadata of the authorization server (RFC 8414 §2).

    Clients demand the three members from ``jwks_uri`` on of ``openid-configuration``, which is the same document. The
    server issues no ID tokens, so its set of keys is empty.
    """
    registers = get_conf().OAUTH_REGISTRATION != "off"
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/{paths.AUTHORIZE}",
        "token_endpoint": f"{issuer}/{paths.TOKEN}",
        **({"registration_endpoint": f"{issuer}/{paths.REGISTER}"} if registers else {}),
        "revocation_endpoint": f"{issuer}/{paths.REVOKE}",
        "scopes_supported": list(scopes),
        "response_types_supported": ["code"],
        "response_modes_supported": list(RESPONSE_MODES),
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "prompt_values_supported": list(PROMPTS),
        "request_parameter_supported": False,
        # By itself it would be true.
        "request_uri_parameter_supported": False,
        "claims_parameter_supported": False,
        "jwks_uri": f"{issuer}/{paths.KEYS}",
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
