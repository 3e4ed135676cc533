"""The envelope: every modern request names its version and its client in ``params._meta`` (2026-07-28 basic#meta)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.errors import EnvelopeError, UnsupportedVersion
from mcp_django.protocol.names import MAX_QUOTED, client_name
from mcp_django.protocol.revisions import MODERN_REVISIONS
from mcp_django.protocol.types import JSON

# The reserved keys of ``_meta`` (2026-07-28 basic#meta): the first four of a request, the last of a result.
PROTOCOL_VERSION_META_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_META_KEY = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_META_KEY = "io.modelcontextprotocol/logLevel"
SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"


def claims_modern(params: JSON) -> bool:
    """Whether the message is a modern one: its ``_meta`` has a protocol version."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


def read_envelope(params: JSON) -> tuple[str, JSON]:
    """The revision and the client's capabilities that a request's ``_meta`` names. Raises EnvelopeError."""
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    errors: list[FieldError] = []
    for key, kind, what in (
        (PROTOCOL_VERSION_META_KEY, str, "a string"),
        (CLIENT_CAPABILITIES_META_KEY, dict, "an object"),
    ):
        if not isinstance(meta.get(key), kind):
            errors.append(field_error(f"_meta.{key}", f"is required and must be {what}", meta.get(key)))
    if errors:
        raise EnvelopeError(f"params.{errors[0]['field']} {errors[0]['message']}.", errors)
    return meta[PROTOCOL_VERSION_META_KEY], meta[CLIENT_CAPABILITIES_META_KEY]


def open_modern(params: JSON, check_headers: Callable[[str], None] | None = None) -> tuple[str, Client]:
    """The revision and the client of a modern request. Raises EnvelopeError and UnsupportedVersion.

    ``check_headers`` is called with the revision in the body before we know whether we support it.
    """
    revision, capabilities = read_envelope(params)
    if check_headers is not None:
        check_headers(revision)
    if revision not in MODERN_REVISIONS:
        # A legacy revision is refused too, because it needs a session.
        raise UnsupportedVersion(revision)
    return revision, client_of(params, capabilities)


def client_of(params: JSON, capabilities: JSON) -> Client:
    info = params["_meta"].get(CLIENT_INFO_META_KEY)
    return Client(info if isinstance(info, dict) else {}, capabilities)


@dataclass(frozen=True, slots=True)
class Client:
    """How the client describes itself: its ``info``, which is logged and never trusted, and what it can do."""

    info: JSON = field(default_factory=dict)
    capabilities: JSON = field(default_factory=dict)
    #: Its name, where the server gives it one.
    known_as: str = ""

    @property
    def name(self) -> str:
        """What it is called where others read it, mostly what it calls itself: see ``client_name``."""
        name = self.info.get("name")
        return self.known_as or (client_name(name[: MAX_QUOTED + 1]) if isinstance(name, str) else "")
