"""The five revisions of the protocol, and the two eras that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType

from mcp_django.exceptions import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)

#: Those that begin with the handshake of ``initialize``, the oldest first.
LEGACY_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
#: Those whose requests each name their revision in ``_meta``.
MODERN_REVISIONS = ("2026-07-28",)
REVISIONS = (*LEGACY_REVISIONS, *MODERN_REVISIONS)
NEWEST_LEGACY = LEGACY_REVISIONS[-1]
NEWEST = REVISIONS[-1]
#: The revision of a legacy request without a session and without a version header (2025-11-25 basic/transports).
ASSUMED_REVISION = "2025-03-26"
#: In these revisions one message may be an array of messages (SPEC 2025-03-26 basic#batching).
BATCH_REVISIONS = frozenset({"2024-11-05", "2025-03-26"})

#: In these revisions the server may end a stream early, and the client polls for the answer (SPEC 2025-11-25
#: basic/transports).
POLLING_REVISIONS = frozenset({"2025-11-25"})

#: In these revisions a client asks its user for the scopes that a 403 names (2025-11-25 basic/authorization
#: #scope-challenge-handling).
STEP_UP_REVISIONS = POLLING_REVISIONS | frozenset(MODERN_REVISIONS)

#: The error code up to 2025-11-25. Later revisions use INVALID_PARAMS for a missing resource.
RESOURCE_NOT_FOUND = -32002


@dataclass(frozen=True, slots=True)
class Era:
    """The differences between the eras beside methods and fields. Handlers read the era, and never a revision."""

    name: str
    resource_not_found: int
    #: Error code → the HTTP status of the answer. Errors with other codes are sent with status 200.
    statuses: Mapping[int, HTTPStatus]
    #: A client that disconnects cancels its request (2026-07-28 transports/streamable-http#cancellation).
    disconnect_cancels: bool
    #: A request has its own version and capabilities in ``_meta``, and a result has ``resultType`` and hints.
    enveloped: bool

    def status_of(self, code: int) -> HTTPStatus:
        return self.statuses.get(code, HTTPStatus.OK)


LEGACY = Era(
    name="legacy",
    resource_not_found=RESOURCE_NOT_FOUND,
    statuses=MappingProxyType({PARSE_ERROR: HTTPStatus.BAD_REQUEST, INVALID_REQUEST: HTTPStatus.BAD_REQUEST}),
    disconnect_cancels=False,
    enveloped=False,
)
MODERN = Era(
    name="modern",
    resource_not_found=INVALID_PARAMS,
    statuses=MappingProxyType(
        {
            PARSE_ERROR: HTTPStatus.BAD_REQUEST,
            INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
            HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
            MISSING_REQUIRED_CLIENT_CAPABILITY: HTTPStatus.BAD_REQUEST,
            UNSUPPORTED_PROTOCOL_VERSION: HTTPStatus.BAD_REQUEST,
            METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
        }
    ),
    disconnect_cancels=True,
    enveloped=True,
)


#: The era of each revision.
ERAS: Mapping[str, Era] = MappingProxyType({name: MODERN if name in MODERN_REVISIONS else LEGACY for name in REVISIONS})


def era_of(revision: str) -> Era:
    return ERAS.get(revision, LEGACY)
