"""The principal: on whose behalf a message is answered."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from mcp_django.exchange.scopes import common, grant

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


#: Scopes that end by themselves, each with its end in seconds since 1970.
Lent = tuple[tuple[str, float], ...]
#: In the place of an end: the grant is lent the scope, and a client that asked for less has a token without it.
WITHHELD = 0.0


def in_force(lent: Iterable[tuple[str, float]]) -> frozenset[str]:
    """Those of the lent scopes that have not ended."""
    now = timezone.now().timestamp()
    return frozenset(scope for scope, end in lent if end > now)


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, and the scopes of the credential that was sent. The rights are the user's permissions ∩ the scopes."""

    user: AbstractBaseUser | AnonymousUser
    #: The scopes that the credential has for good.
    lasting: frozenset[str]
    #: The credential that the authentication class returned: an AccessToken, or a project's own object.
    auth: Any = None
    #: The AccessToken's primary key, where the credential is one.
    token_id: int | None = None
    source: Source = Source.REQUEST
    #: The scopes that it is lent, each with its end in seconds since 1970. One that has ended grants nothing.
    lent: Lent = ()

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that it has at this moment, however long ago the principal was read."""
        return self.lasting if not self.lent else self.lasting | in_force(self.lent)

    def within(self, most: Set[str]) -> Principal:
        """The principal with no more than these scopes. What it is lent beyond them is withheld from now on."""
        lent: list[tuple[str, float]] = []
        for scope, end in self.lent:
            kept = common({scope}, most)
            lent += [(one, end) for one in sorted(kept)] + [(scope, WITHHELD)] * (scope not in kept)
        return replace(self, lasting=common(self.lasting, most), lent=tuple(lent))

    def end_of(self, wanted: Iterable[str]) -> float | None:
        """When it loses the last scope that grants one of these, in seconds since 1970. None where it keeps one."""
        wanted = list(wanted)
        if not self.lent or any(grant(self.lasting, scope) for scope in wanted):
            return None
        return max((end for one, end in self.lent if any(grant({one}, scope) for scope in wanted)), default=None)

    @property
    def constant(self) -> list[str]:
        """What of its scopes no lending changes. Whatever asks for messages of the same credential is bound to it."""
        withheld = (f"-{scope}" for scope, end in self.lent if end == WITHHELD)
        return sorted(self.lasting.union(withheld))

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
    def rights(self) -> tuple[str, int | None, frozenset[str], Lent]:
        """Principals with equal rights see the same, so an event is checked once for all of them."""
        return self.key, self.token_id, self.lasting, self.lent
