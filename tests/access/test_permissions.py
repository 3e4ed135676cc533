"""One decision for everything that agents may use: scope, override and permission, each of which alone refuses."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import OperationalError

import mcp_django
from mcp_django import site
from mcp_django.access import overrides
from mcp_django.access.overrides import Override, Overrides
from mcp_django.access.permissions import Decision, decide, has_permission
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_settings
from mcp_django.exchange.scopes import ACTIONS, READ
from mcp_django.models import Tool
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db

#: The key of a group of which nobody is a member.
STRANGERS = 1_000_000

ALLOWED, NO_SCOPE, SWITCHED_OFF = Decision.ALLOWED, Decision.NO_SCOPE, Decision.SWITCHED_OFF
NO_GROUP, NO_PERMISSION = Decision.NO_GROUP, Decision.NO_PERMISSION


def says_yes(request: MCPRequest) -> bool:
    return True


def says_no(request: MCPRequest) -> bool:
    return False


def fails(request: MCPRequest) -> bool:
    raise ZeroDivisionError


def must_not_be_asked(request: MCPRequest) -> NoReturn:
    raise AssertionError("the hook was asked")


@pytest.fixture
def group() -> Group:
    return Group.objects.create(name="dispatchers")


@pytest.fixture
def user(group: Group) -> User:
    user = User.objects.create_user("ada")
    user.groups.add(group)
    return user


def request_of(user: Any, *scopes: str) -> MCPRequest:
    return from_settings().for_principal(Principal(user, frozenset(scopes)))


def expected(has_scope: bool, override: str, hook: Callable[[MCPRequest], bool] | None) -> Decision:
    if not has_scope:
        return NO_SCOPE
    if override.startswith("off"):
        return SWITCHED_OFF
    if override in ("on for others", "on for groups that are gone"):
        return NO_GROUP
    return ALLOWED if hook in (None, says_yes) else NO_PERMISSION


def test_scope_override_and_permission_must_all_hold(user: User, group: Group) -> None:
    overrides = {
        "none": None,
        "on": Override(enabled=True),
        "off": Override(enabled=False),
        "on for mine": Override(enabled=True, restricted=True, groups=frozenset({group.pk})),
        "on for others": Override(enabled=True, restricted=True, groups=frozenset({STRANGERS})),
        "on for both": Override(enabled=True, restricted=True, groups=frozenset({group.pk, STRANGERS})),
        "on for groups that are gone": Override(enabled=True, restricted=True),
        "off for mine": Override(enabled=False, restricted=True, groups=frozenset({group.pk})),
    }
    cases = list(product([True, False], overrides, (None, says_yes, says_no, fails)))

    decided = {
        (has_scope, override, hook): decide(
            request_of(user, *([READ, ACTIONS] if has_scope else [READ])),
            ACTIONS,
            overrides[override],
            hook,
            "the hook",
        )
        for has_scope, override, hook in cases
    }

    assert decided == {case: expected(*case) for case in cases}
    # The others are decided by what writes: the tool itself, and the options of a model.
    assert set(decided.values()) == set(Decision) - {Decision.READ_ONLY, Decision.NOT_WRITABLE}


def test_no_hook_runs_without_the_scope_or_for_what_an_administrator_refused(user: User) -> None:
    for scopes, override, decision in (
        ([], None, NO_SCOPE), ([READ], Override(enabled=False), SWITCHED_OFF),
        ([READ], Override(enabled=True, restricted=True), NO_GROUP),
    ):  # fmt: skip
        assert decide(request_of(user, *scopes), READ, override, must_not_be_asked, "a hook") is decision


def test_an_anonymous_user_and_a_user_model_without_groups_are_members_of_no_group(group: Group) -> None:
    class Robot:
        pk = 1

    override = Override(enabled=True, restricted=True, groups=frozenset({group.pk}))

    for user in (AnonymousUser(), Robot()):
        assert decide(request_of(user, READ), READ, override, says_yes, "a hook") is NO_GROUP


def test_a_hook_that_fails_is_logged_by_its_name(user: User, caplog: pytest.LogCaptureFixture) -> None:
    assert decide(request_of(user, READ), READ, None, fails, "flights.flight", "has_view_permission") is NO_PERMISSION

    assert caplog.messages == ["flights.flight.has_view_permission failed; taken as a refusal"]


def test_a_database_that_is_away_is_no_refusal(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that went out without what could not be asked for would be told to everybody as a change."""
    monkeypatch.setattr("mcp_django.core.hooks.is_database_away", lambda: True)

    with pytest.raises(OperationalError, match="The database is away"):
        decide(request_of(user, READ), READ, None, fails, "a hook")


def test_a_permission_is_asked_of_the_user_and_an_empty_one_demands_nothing(user: User) -> None:
    request = request_of(user, READ)
    granted = Permission.objects.get(codename="view_group")
    user.user_permissions.add(granted)

    assert has_permission(request, "")
    assert has_permission(request, "auth.view_group")
    assert not has_permission(request, "auth.change_group")


def test_nothing_else_decides() -> None:
    """Only the module of the decision holds a scope against those of a principal, or the groups of an override."""
    package = Path(mcp_django.__file__).parent
    deciding = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _tests_scopes(node) or _reads_restriction(node)
    }

    # A file of switches has what is in the table, and decides nothing.
    assert deciding - {"console/review/switches.py"} == {"access/permissions.py"}


def _tests_scopes(node: ast.AST) -> bool:
    """Whether the node is ``… in something.scopes``."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.In | ast.NotIn):
        return False
    held = node.comparators[0]
    return isinstance(held, ast.Attribute) and held.attr == "scopes"


def _reads_restriction(node: ast.AST) -> bool:
    """Whether the node is ``override.restricted``."""
    return isinstance(node, ast.Attribute) and node.attr == "restricted"


# What administrators decided about tools, as a process reads it.


@pytest.mark.every_database
def test_overrides_and_their_groups_are_read_with_one_query(django_assert_num_queries: Any) -> None:
    first, second = Group.objects.create(name="a"), Group.objects.create(name="b")
    Tool.objects.filter(site=site.name).delete()
    Tool.objects.create(site=site.name, name="plain", enabled=True, description="Other words.")
    Tool.objects.create(site=site.name, name="both", enabled=True).groups.set([first, second])
    Tool.objects.create(site=site.name, name="left", enabled=True, restricted=True)
    Tool.objects.create(site="other", name="elsewhere", enabled=True)

    with django_assert_num_queries(1):
        found = Overrides("Tool")._load(site)

    assert found == {
        "plain": Override(enabled=True, description="Other words."),
        "both": Override(enabled=True, restricted=True, groups=frozenset({first.pk, second.pk})),
        "left": Override(enabled=True, restricted=True),
    }


@pytest.mark.every_database
def test_rows_that_say_no_more_than_that_an_action_is_off_are_not_read() -> None:
    off = {"enabled": False}
    decided: dict[str, dict[str, Any]] = {
        "described": {**off, "description": "Other words."}, "left": {**off, "restricted": True},
        "saved": {**off, "query": "{}"}, "switched_on": {"enabled": True}, "find_records": off,
    }  # fmt: skip
    Tool.objects.filter(site=site.name).delete()
    Tool.objects.bulk_create(
        Tool(site=site.name, name=name, **values)
        for name, values in {**decided, **{f"action_{number}": off for number in range(10)}}.items()
    )

    assert overrides.tools._load(site) == {name: Override(**values) for name, values in decided.items()}


def test_a_tool_that_is_declared_late_is_off_where_its_row_says_so(declared: Declared, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 300}
    Tool.objects.create(site=site.name, name="late", enabled=False)
    before = overrides.tools.of_site(site, fresh=False)

    def late(request: Any) -> None:
        """Come late."""

    declared.tool(late)

    assert "late" not in before
    assert overrides.tools.of_site(site, fresh=False)["late"] == overrides.OFF
