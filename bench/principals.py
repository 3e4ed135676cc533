"""Users who may see the airlines and the planes, each with a token of their own."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import Group, Permission, User

from mcp_django.models import AccessToken

_GROUP = "bench"


@dataclass(frozen=True, slots=True)
class Principals:
    """The secrets of their tokens."""

    tokens: list[str]

    @classmethod
    def made(cls, number: int) -> Principals:
        """So many users with new tokens; those of an earlier run go."""
        group, _ = Group.objects.get_or_create(name=_GROUP)
        group.permissions.set(Permission.objects.filter(codename__in=["view_airline", "view_plane"]))
        User.objects.filter(username__startswith="bench-").delete()
        names = [f"bench-{position}" for position in range(number)]
        users = User.objects.bulk_create(User(username=name, is_staff=True, password="!") for name in names)
        User.groups.through.objects.bulk_create(User.groups.through(user=user, group=group) for user in users)
        tokens = [AccessToken.objects.create_token(user=user, name="bench", scopes=["read"])[1] for user in users]
        return cls(tokens)

    def of(self, distinct: int, sockets: int) -> list[str]:
        """The tokens of so many sockets of so many distinct principals."""
        return [self.tokens[position % distinct] for position in range(sockets)]
