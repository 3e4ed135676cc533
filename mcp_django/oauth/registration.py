"""Dynamic client registration (RFC 7591), which stores nothing: the client_id is the registration itself, signed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from django.core import signing

from mcp_django.oauth import redirects
from mcp_django.oauth.client_metadata import ClientMetadata, InvalidMetadata, check_grants, name_in, redirects_in
from mcp_django.protocol.types import JSON

_SALT = "mcp_django.oauth.registration"
_MAX_LENGTH = 3_000
#: The redirect URIs of the clients that people know, beside those on their own machines.
_KNOWN = (
    "https://claude.ai/api/mcp/auth_callback",
    "https://claude.com/api/mcp/auth_callback",
    "https://chatgpt.com/connector_platform_oauth_redirect",
    "https://vscode.dev/redirect",
    "https://insiders.vscode.dev/redirect",
    "https://www.cursor.com/agents/mcp/oauth/callback",
    "https://grok.com/connectors-oauth-exchange-code/",
    "https://console.x.ai/connectors-oauth-exchange-code/",
    "https://antigravity.google/oauth-callback",
    "https://callback.mistral.ai/v1/integrations_auth/oauth2_callback",
)
#: Those with an id of the app or connector at their end.
_KNOWN_FORMS = re.compile(
    r"https://(?:chatgpt\.com/connector/oauth|global\.consent\.azure-apim\.net/redirect)/[A-Za-z0-9_-]{1,100}"
)


def register(payload: Mapping[str, Any], mode: str) -> tuple[str, JSON]:
    """The client_id of a registration, and the answer to it (RFC 7591 §3.2.1). Raises InvalidMetadata.

    ``mode`` is "known" or "open". Whatever the client asks for, it is a public one and gets no secret. The same
    registration gets the same client_id, in which a loopback redirect has no port, since any port will do.
    """
    check_grants(payload)
    given = redirects_in(payload)
    kept = tuple(uri for uri in given if is_admitted(uri, mode))
    if not kept:
        raise InvalidMetadata(
            "invalid_redirect_uri", "Clients with these redirect URIs may not register here (OAUTH_REGISTRATION)."
        )
    name = name_in(payload)
    client_id = _sign({"name": name, "redirect_uris": sorted({redirects.portless(uri) for uri in kept})})
    if len(client_id) > _MAX_LENGTH:
        raise InvalidMetadata("invalid_client_metadata", "The registration is too long. Send fewer redirect URIs.")
    return client_id, {
        "client_id": client_id,
        "client_id_issued_at": int(time.time()),
        **({"client_name": name} if name else {}),
        "redirect_uris": list(kept),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def read(client_id: str, mode: str) -> ClientMetadata | None:
    """The client that a client_id of ours describes, if it could register now too; None for any other text."""
    if len(client_id) > _MAX_LENGTH or mode == "off":
        return None
    try:
        found = signing.Signer(salt=_SALT).unsign_object(client_id, serializer=_Sorted)
    except (signing.BadSignature, ValueError):
        return None
    kept = tuple(uri for uri in found["redirect_uris"] if is_admitted(uri, mode))
    return ClientMetadata(client_id, found["name"], kept, "registration") if kept else None


def is_admitted(uri: str, mode: str) -> bool:
    """Whether a client with this redirect may register."""
    return mode == "open" or redirects.is_loopback(uri) or is_known(uri)


def is_known(uri: str) -> bool:
    """Whether this is a redirect URI of a client that people know."""
    return uri in redirects.PRIVATE or uri in _KNOWN or _KNOWN_FORMS.fullmatch(uri) is not None


class _Sorted(signing.JSONSerializer):
    """JSON in which the same values always give the same text."""

    def dumps(self, obj: Any) -> bytes:
        return json.dumps(obj, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


def _sign(values: Mapping[str, str | Iterable[str]]) -> str:
    return signing.Signer(salt=_SALT).sign_object(values, serializer=_Sorted, compress=True)
