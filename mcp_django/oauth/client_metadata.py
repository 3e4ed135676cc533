"""What is known of a client: its name and its redirects, from its registration or from a document that it publishes."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from mcp_django.oauth import redirects

_MAX_NAME = 100
_MAX_REDIRECTS = 20
#: Characters that a name cannot contain: controls, those that turn the direction of a text, and the unassigned.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class InvalidMetadata(ValueError):
    """Metadata that this server does not accept, with an error code of RFC 7591 §3.2.2."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """A public client (RFC 7591 §2)."""

    client_id: str
    #: What it calls itself; empty where it does not say.
    name: str
    redirect_uris: tuple[str, ...]
    #: "unproven": its id is the URL of a document whose host could not be reached.
    registered_by: Literal["document", "registration", "unproven"]

    @property
    def host(self) -> str:
        """The host that answers for the client; empty for one that registered itself, for which nobody answers."""
        return urlsplit(self.client_id).netloc if self.registered_by == "document" else ""

    @property
    def claimed_host(self) -> str:
        """The host that would answer for the client, if it could be reached; empty for any other client."""
        return urlsplit(self.client_id).netloc if self.registered_by == "unproven" else ""

    def allows(self, redirect_uri: str) -> bool:
        """Whether the client may be answered there."""
        return any(redirects.matches(registered, redirect_uri) for registered in self.redirect_uris)


def name_in(metadata: Mapping[str, Any]) -> str:
    """What the client calls itself, as one line of visible text."""
    name = metadata.get("client_name")
    if not isinstance(name, str):
        return ""
    visible = "".join(" " if char.isspace() else char for char in name[: 10 * _MAX_NAME])
    plain = "".join(char for char in visible if unicodedata.category(char) not in _HIDDEN)
    return " ".join(plain.split())[:_MAX_NAME]


def redirects_in(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The usable redirects: one bad URI does not kill the others. Raises InvalidMetadata if none is left."""
    given = metadata.get("redirect_uris")
    if not isinstance(given, list):
        raise InvalidMetadata("invalid_redirect_uri", "redirect_uris must be a list of URIs.")
    if len(given) > _MAX_REDIRECTS:
        raise InvalidMetadata("invalid_redirect_uri", f"redirect_uris may have {_MAX_REDIRECTS} entries at most.")
    usable = tuple(dict.fromkeys(uri for uri in given if isinstance(uri, str) and redirects.is_usable(uri)))
    if not usable:
        raise InvalidMetadata(
            "invalid_redirect_uri",
            "None of redirect_uris can be used: each must be https, or http on localhost, 127.0.0.1 or [::1].",
        )
    return usable


def check_grants(metadata: Mapping[str, Any]) -> None:
    """Raises InvalidMetadata for a client that cannot use codes. Other grants that it names are ignored."""
    for member, needed in (("grant_types", "authorization_code"), ("response_types", "code")):
        given = metadata.get(member)
        # Some clients send null for what they leave out.
        if given is not None and (not isinstance(given, list) or needed not in given):
            raise InvalidMetadata("invalid_client_metadata", f"{member} must have {needed}.")
