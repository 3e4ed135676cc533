"""Whatever is changed behind its back, a process that remembers answers a second later as one that does not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_django import site
from mcp_django.access import authentication, overrides
from mcp_django.access.authentication import principals
from mcp_django.access.permissions import decide, has_permission
from mcp_django.conf import get_conf
from mcp_django.exchange.requests import from_settings
from mcp_django.exchange.scopes import READ
from mcp_django.models import AccessToken, Tool
from tests.support.examples import examples

VIEW = "flights.view_flight"
_OF_USER, _OF_GROUP, _MEMBERS = (
    User.user_permissions.through,
    Group.permissions.through,
    User.groups.through,
)


class World:
    """A user with a token, a group and a tool, which are changed without a signal: as another process would."""

    def __init__(self) -> None:
        self.user, self.group = User.objects.create_user("ada"), Group.objects.create(name="viewers")
        self.permission = Permission.objects.get(codename=VIEW.partition(".")[2])
        self.token = AccessToken.objects.create_token(user=self.user)[0]
        Tool.objects.update_or_create(site=site.name, name="look", defaults={"enabled": True})
        principals.clear()
        overrides.forget()

    def grant(self) -> None:
        _OF_USER.objects.bulk_create([_OF_USER(user=self.user, permission=self.permission)], ignore_conflicts=True)

    def withdraw(self) -> None:
        rows: Any = _OF_USER.objects.all()
        rows._raw_delete(rows.db)

    def grant_to_group(self) -> None:
        _OF_GROUP.objects.bulk_create([_OF_GROUP(group=self.group, permission=self.permission)], ignore_conflicts=True)

    def join(self) -> None:
        _MEMBERS.objects.bulk_create([_MEMBERS(user=self.user, group=self.group)], ignore_conflicts=True)

    def leave(self) -> None:
        rows: Any = _MEMBERS.objects.all()
        rows._raw_delete(rows.db)

    def deactivate(self) -> None:
        User.objects.update(is_active=False)

    def activate(self) -> None:
        User.objects.update(is_active=True)

    def promote(self) -> None:
        User.objects.update(is_superuser=True)

    def demote(self) -> None:
        User.objects.update(is_superuser=False)

    def switch_off(self) -> None:
        Tool.objects.filter(name="look").update(enabled=False)

    def switch_on(self) -> None:
        Tool.objects.filter(name="look").update(enabled=True)

    def revoke(self) -> None:
        AccessToken.objects.update(revoked_at=timezone.now())

    def scope(self) -> None:
        AccessToken.objects.update(scopes=["actions"])

    def answer(self) -> str:
        """What the token may do with the tool now."""
        principal = principals.find_hash(self.token.hash, fresh=False)
        if principal is None:
            return "nobody"
        request = from_settings().for_principal(principal)
        request.mcp = SimpleNamespace(site=site, principal=principal)  # type: ignore[assignment]
        override = overrides.tools.of_site(site, fresh=False).get("look", overrides.ON)
        return decide(request, READ, override, lambda asked: has_permission(asked, VIEW), "look").name


CHANGES: list[Callable[[World], None]] = [
    value for name, value in vars(World).items() if not name.startswith("_") and name != "answer"
]


@pytest.mark.every_database
@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from([0.0, 0.3, 0.9])), min_size=1, max_size=8))
def test_a_second_after_silent_changes_the_answers_are_the_same(
    transactional_db: None, changes: list[tuple[Callable[[World], None], float]]
) -> None:
    clock = [1_000.0]
    with pytest.MonkeyPatch.context() as patched:
        for module in (authentication, overrides):
            patched.setattr(module.time, "monotonic", lambda: clock[0])
        world = World()
        try:
            for change, pause in changes:
                world.answer()
                clock[0] += pause
                change(world)
                world.answer()
                clock[0] += get_conf().TOKEN_CACHE_SECONDS
                remembered = world.answer()
                principals.clear()
                overrides.forget()
                assert remembered == world.answer()
        finally:
            world.user.delete()
            world.group.delete()
