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
    """A code or a refresh token that is not valid (RFC 6749 §5.2)."""

    def __init__(self, description: str) -> None:
        super().__init__("invalid_grant", description)


class AskPerson(OAuthError):
    """A refresh by a client that was told to ask its person for more scopes, which no refresh can give.

    Clients that are built on the official TypeScript SDK 1 answer ``insufficient_scope`` with a refresh, call once
    more and give up. They take this code for a server in trouble, and then ask their person. Nothing is lost: the
    refresh token stays good, and the next refresh works.
    """

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("server_error", "A refresh gives no more scopes. Send the person to authorize them.")


class UnusableRequest(Exception):
    """A request to authorize that cannot be answered by a redirect: the person sees a page with this text.

    ``detail`` is for the developers of the client, in English.
    """

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail
