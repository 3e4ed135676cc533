"""Client ID metadata documents: a client whose id is the URL of the document that describes it.

https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Condition
from typing import Any
from urllib.parse import urlsplit

from mcp_django.oauth import fetching, redirects
from mcp_django.oauth.client_metadata import ClientMetadata, InvalidMetadata, check_grants, name_in, redirects_in

_MAX_LENGTH = 238
_LEGAL = re.compile(r"https://[a-z0-9.-]+(?::443)?/[A-Za-z0-9._~:/?@!$&'()*+,;=%-]+")
_ENCODED_DOT = re.compile("%2e", re.IGNORECASE)
#: How long a document, or the failure to get it, is kept in any case, and at most.
_LEAST_SECONDS, _MOST_SECONDS = 60.0, 24 * 3_600.0
_MAX_KEPT = 500
#: People who wait for a document at the same time, and documents that one person waits for: each holds a thread of the
#: server.
_MOST_WAITING, _MOST_OF_PERSON = 8, 2

#: The documents of clients that people know. They can connect while their hosts cannot be reached, and to servers that
#: have no access to the internet. docs/oauth.md says where each was seen, and when.
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
    "https://chatgpt.com/oauth/codex/client.json": {
        "client_name": "Codex",
        "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
    },
    "https://vscode.dev/oauth/client-metadata.json": {
        "client_name": "Visual Studio Code",
        "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
    },
    "https://github.com/copilot/cli/client-metadata.json": {
        "client_name": "GitHub Copilot CLI",
        "redirect_uris": ["http://127.0.0.1:33418/"],
    },
    "https://zed.dev/oauth/client-metadata.json": {
        "client_name": "Zed",
        "redirect_uris": ["http://127.0.0.1/callback"],
    },
    "https://goose-docs.ai/oauth/client-metadata.json": {
        "client_name": "goose",
        # The last one is that of older releases.
        "redirect_uris": [
            "http://127.0.0.1/oauth_callback", "http://[::1]/oauth_callback", "http://localhost/oauth_callback",
        ],
    },
    "https://opencode.ai/oauth/opencode/client.json": {
        "client_name": "opencode",
        # The last one is what the program asks for, though its document lacks it.
        "redirect_uris": [
            "http://127.0.0.1/callback", "http://localhost/callback", "http://127.0.0.1/mcp/oauth/callback",
        ],
    },
    "https://grok.com/oauth/mcp-client.json": {
        "client_name": "Grok",
        "redirect_uris": [
            "https://grok.com/connectors-oauth-exchange-code/", "https://console.x.ai/connectors-oauth-exchange-code/",
        ],
    },
}  # fmt: skip


class DocumentUnavailable(Exception):
    """The document of a client cannot be fetched, with a sentence for the person who is logging in."""


class HostUnreachable(DocumentUnavailable):
    """No connection to the host of the document came about."""


def is_document_id(client_id: str) -> bool:
    """Whether a client_id is the URL of a document (draft §3): https, with a path, and with one reading."""
    if len(client_id) > _MAX_LENGTH or not _LEGAL.fullmatch(client_id):
        return False
    segments = _ENCODED_DOT.sub(".", urlsplit(client_id).path).split("/")
    return "." not in segments and ".." not in segments and segments != ["", ""]


def find(client_id: str, redirect_uri: str, *, person: str | None) -> ClientMetadata:
    """The client of a document. Raises DocumentUnavailable, and InvalidMetadata.

    A bundled copy is used if it lists the redirect that is asked for, or if the document cannot be fetched.
    ``person`` is the key of the user for whom the document is fetched; with None it is not fetched.
    """
    copy = BUNDLED.get(client_id)
    bundled = None if copy is None else _read(client_id, {"client_id": client_id, **copy})
    if bundled is not None and bundled.allows(redirect_uri):
        return bundled
    if person is None:
        raise DocumentUnavailable("It was not fetched.")
    try:
        return _kept.find(client_id, person)
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
    # A client that can prove who it is must do so; otherwise others could come in its name. Bundled clients are exempt,
    # since their redirects are known.
    is_public = document.get("token_endpoint_auth_method") in (None, "none") or client_id in BUNDLED
    if not is_public and not _is_answered_at_home(client_id, document):
        raise InvalidMetadata("invalid_client_metadata", "It authenticates itself, which this server cannot check.")
    return ClientMetadata(client_id, name_in(document), redirects_in(document), "document")


def _is_answered_at_home(client_id: str, document: Mapping[str, Any]) -> bool:
    """Whether a client that prefers to authenticate itself offers to come without, and only its own host is answered.

    Nobody else gets the code then, whoever asks for it. So are the documents of ChatGPT for each app.
    """
    methods, uris = document.get("token_endpoint_auth_methods_supported"), document.get("redirect_uris")
    home = f"https://{urlsplit(client_id).hostname}/"
    return (
        isinstance(methods, list)
        and "none" in methods
        and isinstance(uris, list)
        and all(isinstance(uri, str) and redirects.is_usable(uri) and uri.startswith(home) for uri in uris)
    )


class _Kept:
    """The documents that were fetched lately, and those that could not be."""

    def __init__(self) -> None:
        #: By URL: until when, as ``time.monotonic()`` has it, and the client or why there is none.
        self._entries: OrderedDict[str, tuple[float, ClientMetadata | Exception]] = OrderedDict()
        self._underway: set[str] = set()
        #: The key of a user → the number of documents that the user waits for.
        self._people: Counter[str] = Counter()
        self._changed = Condition()

    def find(self, client_id: str, person: str) -> ClientMetadata:
        """The client of a document, fetched unless it was lately. Raises DocumentUnavailable, and InvalidMetadata."""
        found = self._fresh(client_id)
        if found is None:
            with self._place(person), self._turn(client_id):
                found = self._fresh(client_id) or self._fetch(client_id)
        if isinstance(found, Exception):
            # Otherwise a kept error would collect the frames of each raise.
            raise found.with_traceback(None)
        return found

    def clear(self) -> None:
        with self._changed:
            self._entries.clear()

    def _fresh(self, client_id: str) -> ClientMetadata | Exception | None:
        until, found = self._entries.get(client_id, (0.0, None))
        return found if until > time.monotonic() else None

    @contextmanager
    def _place(self, person: str) -> Iterator[None]:
        """Raises DocumentUnavailable where too many people wait, or the person alone for too many documents."""
        with self._changed:
            if self._people.total() == _MOST_WAITING or self._people[person] == _MOST_OF_PERSON:
                raise DocumentUnavailable("Too many such documents are being fetched. Try again in a moment.")
            self._people[person] += 1
        try:
            yield
        finally:
            with self._changed:
                self._people -= Counter([person])

    @contextmanager
    def _turn(self, client_id: str) -> Iterator[None]:
        """Let only one request at a time fetch the same document."""
        with self._changed:
            self._changed.wait_for(lambda: client_id not in self._underway)
            self._underway.add(client_id)
        try:
            yield
        finally:
            with self._changed:
                self._underway.discard(client_id)
                self._changed.notify_all()

    def _fetch(self, client_id: str) -> ClientMetadata | Exception:
        found: ClientMetadata | Exception
        seconds = _LEAST_SECONDS
        try:
            fetched = fetching.fetch(client_id)
            document = json.loads(fetched.body)
            if not isinstance(document, dict):
                raise InvalidMetadata("invalid_client_metadata", "It is no JSON object.")
            found, seconds = _read(client_id, document), fetched.fresh_seconds
        except fetching.Busy as error:
            raise DocumentUnavailable(str(error)) from None
        except fetching.Unreachable as error:
            found = HostUnreachable(str(error))
        except fetching.FetchError as error:
            found = DocumentUnavailable(str(error))
        except InvalidMetadata as error:
            found = error
        except (ValueError, RecursionError):
            found = InvalidMetadata("invalid_client_metadata", "It is no JSON.")
        until = time.monotonic() + min(max(seconds, _LEAST_SECONDS), _MOST_SECONDS)
        with self._changed:
            self._entries[client_id] = until, found
            self._entries.move_to_end(client_id)
            while len(self._entries) > _MAX_KEPT:
                self._entries.popitem(last=False)
        return found


_kept = _Kept()
