"""The errors of the authorization server, with the codes of the RFCs."""

from __future__ import annotations

from http import HTTPStatus


class OAuthError(Exception):
    """An error that a client gets as JSON, or as parameters of a redirect (RFC 6749 §4.1.2.1, §5.2)."""

    status = HTTPStatus.BAD_REQUEST

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code
        #: A sentence for developers, of printable ASCII, as the RFC wants it.
        self.description = description


class InvalidGrant(OAuthError):
    """A code or a refresh token that does not hold (RFC 6749 §5.2)."""

    def __init__(self, description: str, code: str = "invalid_grant") -> None:
        super().__init__(code, description)


class UnusableRequest(Exception):
    """A request to authorize that cannot be answered by a redirect: the person sees a page with this text."""
