"""The principal: on whose behalf a message is answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AnonymousUser

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


class Source(Enum):
    """Where a principal came from. It decides how the principal is read again while its connection is open."""

    #: The credentials of the request, as an authentication class reads them.
    REQUEST = "request"
    #: The cookie of a login session.
    LOGIN = "login"
    #: A ticket, which stands for an access token.
    TICKET = "ticket"
    #: The command that started the process names the user.
    COMMAND = "command"


class Superuser(AnonymousUser):
    """A user in no database who may do everything. What this user cannot reach, nobody can."""

    is_staff = is_active = is_superuser = True  # type: ignore[assignment]

    def __str__(self) -> str:
        return "a superuser"

    @property
    def is_anonymous(self) -> bool:  # type: ignore[override]
        return False

    @property
    def is_authenticated(self) -> bool:  # type: ignore[override]
        return True

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return True

    def has_perms(self, perm_list: Any, obj: Any = None) -> bool:
        return True

    def has_module_perms(self, module: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, and the scopes of the credential that was sent. The rights are the user's permissions ∩ the scopes."""

    user: AbstractBaseUser | AnonymousUser
    scopes: frozenset[str]
    #: The credential that the authentication class returned: an AccessToken, or a project's own object.
    auth: Any = None
    #: The AccessToken's primary key, where the credential is one.
    token_id: int | None = None
    source: Source = Source.REQUEST

    @property
    def key(self) -> str:
        """Names the user. Queues and limits count by it."""
        return f"user:{self.user.pk}" if self.user.pk is not None else "anonymous"

    @property
    def has_own_token(self) -> bool:
        """Whether it came with an access token of its user. A class of the project may let one act as another user."""
        return self.token_id is not None and self.auth.user_id == self.user.pk

    @property
    def is_made_by_another(self) -> bool:
        """Whether somebody else than the user made the token, and may hold it, or it is another user's."""
        if self.token_id is None:
            return False
        return not self.has_own_token or self.auth.is_made_by_another

    @property
    def lineage(self) -> str:
        """Identifies a token together with the tokens that replaced it. Without a token: the user's key.

        What a client begins and goes on with later is bound to it: sessions, cursors, tasks, request states, tickets.
        """
        return str(self.auth.line) if self.has_own_token else self.key

    @property
    def grant_id(self) -> int | None:
        """The primary key of the Grant by which an OAuth client got the user's token."""
        return self.auth.grant_id if self.has_own_token else None

    @property
    def is_remembered(self) -> bool:
        """Whether it may have been read some time ago, up to TOKEN_CACHE_SECONDS."""
        return self.token_id is not None or self.source is Source.COMMAND

    @property
    def rights(self) -> tuple[str, int | None, frozenset[str]]:
        """Principals with equal rights see the same, so an event is checked once for all of them."""
        return self.key, self.token_id, self.scopes
