"""Client ID metadata documents: a client whose id is the URL of the document that describes it.

https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
"""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from mcp_django.oauth import fetching
from mcp_django.oauth.client_metadata import ClientMetadata, InvalidMetadata, check_grants, name_in, redirects_in

_MAX_LENGTH = 255
_LEGAL = re.compile(r"https://[a-z0-9.-]+(?::443)?/[A-Za-z0-9._~:/?@!$&'()*+,;=%-]+")
#: How long a document, or the failure to get it, is kept in any case, and at most.
_LEAST_SECONDS, _MOST_SECONDS = 60.0, 24 * 3_600.0
_MAX_KEPT = 500

#: The documents of clients that people know. They can connect while their hosts cannot be reached, and to servers that
#: reach nobody.
BUNDLED: Mapping[str, Mapping[str, Any]] = {
    "https://claude.ai/oauth/mcp-oauth-client-metadata": {
        "client_name": "Claude",
        "redirect_uris": ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
    },
    "https://claude.ai/oauth/claude-code-client-metadata": {
        "client_name": "Claude Code",
        "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    },
    "https://chatgpt.com/oauth/client.json": {
        "client_name": "ChatGPT",
        "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
    },
}


class DocumentUnavailable(Exception):
    """The document of a client cannot be had, with a sentence for the person who is logging in."""


def is_document_id(client_id: str) -> bool:
    """Whether a client_id is the URL of a document (draft §3): https, with a path, and with one reading."""
    if len(client_id) > _MAX_LENGTH or not _LEGAL.fullmatch(client_id):
        return False
    segments = urlsplit(client_id).path.split("/")
    return "." not in segments and ".." not in segments and segments != ["", ""]


def find(client_id: str, redirect_uri: str, *, may_fetch: bool) -> ClientMetadata:
    """The client of a document. Raises DocumentUnavailable, and InvalidMetadata.

    A bundled copy serves where it lists the redirect that is asked for, or where the document cannot be fetched.
    """
    copy = BUNDLED.get(client_id)
    bundled = None if copy is None else _read(client_id, {"client_id": client_id, **copy})
    if bundled is not None and bundled.allows(redirect_uri):
        return bundled
    if not may_fetch:
        raise DocumentUnavailable("It was not fetched.")
    try:
        return _kept.find(client_id)
    except (DocumentUnavailable, InvalidMetadata):
        if bundled is None:
            raise
        return bundled


def _read(client_id: str, document: Mapping[str, Any]) -> ClientMetadata:
    """The client that a document describes. Raises InvalidMetadata."""
    if document.get("client_id") != client_id:
        raise InvalidMetadata("invalid_client_metadata", "Its client_id is not the URL that it came from.")
    if "client_secret" in document or "client_secret_expires_at" in document:
        raise InvalidMetadata("invalid_client_metadata", "It has a client_secret, which anybody could read.")
    check_grants(document)
    methods = [document.get("token_endpoint_auth_method", "none")]
    supported = document.get("token_endpoint_auth_methods_supported")
    methods += supported if isinstance(supported, list) else []
    if "none" not in methods:
        raise InvalidMetadata(
            "invalid_client_metadata", "It wants to authenticate itself, which this server cannot check."
        )
    return ClientMetadata(client_id, name_in(document), redirects_in(document), "document")


class _Kept:
    """The documents that were fetched a while ago, and those that could not be."""

    def __init__(self) -> None:
        #: By URL: until when, as ``time.monotonic()`` has it, and the client or why there is none.
        self._entries: OrderedDict[str, tuple[float, ClientMetadata | Exception]] = OrderedDict()
        self._lock = Lock()

    def find(self, client_id: str) -> ClientMetadata:
        """The client of a document, fetched if it was not a while ago. Raises DocumentUnavailable, InvalidMetadata."""
        entry = self._entries.get(client_id)
        if entry is None or entry[0] <= time.monotonic():
            entry = self._fetch(client_id)
        if isinstance(entry[1], Exception):
            raise entry[1]
        return entry[1]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def _fetch(self, client_id: str) -> tuple[float, ClientMetadata | Exception]:
        found: ClientMetadata | Exception
        seconds = _LEAST_SECONDS
        try:
            fetched = fetching.fetch(client_id)
            document = json.loads(fetched.body)
            if not isinstance(document, dict):
                raise InvalidMetadata("invalid_client_metadata", "It is no JSON object.")
            found, seconds = _read(client_id, document), fetched.fresh_seconds
        except fetching.FetchError as error:
            found = DocumentUnavailable(str(error))
        except InvalidMetadata as error:
            found = error
        except (ValueError, RecursionError):
            found = InvalidMetadata("invalid_client_metadata", "It is no JSON.")
        entry = time.monotonic() + min(max(seconds, _LEAST_SECONDS), _MOST_SECONDS), found
        with self._lock:
            self._entries[client_id] = entry
            self._entries.move_to_end(client_id)
            while len(self._entries) > _MAX_KEPT:
                self._entries.popitem(last=False)
        return entry


_kept = _Kept()
