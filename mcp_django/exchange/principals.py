"""The principal: on whose behalf a message is answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser


class Source(Enum):
    """Where a principal came from, which says how it is looked up again while its connection is open."""

    #: The credentials of the request, as an authentication class reads them.
    REQUEST = "request"
    #: The cookie of a login session.
    LOGIN = "login"
    #: A ticket, which stood for an access token.
    TICKET = "ticket"
    #: Whoever started the process named the user.
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Principal:
    """A user and the scopes of the credential that they came with. Right = the user's permissions ∩ the scopes."""

    user: AbstractBaseUser | AnonymousUser
    scopes: frozenset[str]
    #: What the authentication class gave beside the user: an AccessToken, or a project's own object.
    auth: Any = None
    #: The AccessToken's primary key, where the credential is one.
    token_id: int | None = None
    source: Source = Source.REQUEST

    @property
    def key(self) -> str:
        """Names the user: cursors, sessions and queues are bound to it."""
        return f"user:{self.user.pk}" if self.user.pk is not None else "anonymous"

    @property
    def is_remembered(self) -> bool:
        """Whether it may be as it was read some time ago, up to TOKEN_CACHE_SECONDS."""
        return self.token_id is not None or self.source is Source.COMMAND

    @property
    def rights(self) -> tuple[str, int | None, frozenset[str]]:
        """Principals with equal rights see the same, and are checked once for an event."""
        return self.key, self.token_id, self.scopes
