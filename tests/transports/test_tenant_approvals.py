"""Changes that wait, in projects with tenants: whoever agrees, they are made in the tenant of their agent or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

import mcp_django
from mcp_django import MCPSite
from mcp_django.bridge.changes import approvals
from mcp_django.bridge.changes.tenants import tenant_of
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import Change
from mcp_django.server import waiting_changes
from tests.bridge.writes.approving import staff
from tests.bridge.writes.clicking import Browser, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES
from tests.shop.models import Tag
from tests.support.data import Users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers
from tests.transports import tenants
from tests.transports.test_tenants import peer_at, waiting

APPROVER = ("mcp_django.approve_change", "shop.view_tag", "shop.change_tag", "shop.delete_tag")


class ByHost(MCPSite):
    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        token = tenants.tenant.set(request.get_host().partition(".")[0])
        try:
            yield
        finally:
            tenants.tenant.reset(token)


class ByHeader(tenants.TenantSite):
    """A proxy says whose request it is, in front of agents and of people."""

    def remember_key(self, request: HttpRequest) -> str:
        return str(request.META.get("HTTP_X_TENANT", ""))


#: Kind of tenants → the middleware, the site, and the tenant as the project's code finds it.
Project = tuple[str, type[MCPSite], Callable[[Any], str]]
PROJECTS: dict[str, Project] = {
    "by host in middleware": ("by_request", MCPSite, lambda request: getattr(request, "tenant", "")),
    "by header in middleware": ("by_header", MCPSite, lambda request: getattr(request, "tenant", "")),
    "by host in call_context": ("", ByHost, lambda _: tenants.tenant.get()),
    "by header in call_context": ("", ByHeader, lambda _: tenants.tenant.get()),
    "by user": ("", MCPSite, lambda request: request.user.last_name),
}
#: Who agrees → whether the change is made. Nothing gives the header to what is done later, beside a call_context.
MADE: Mapping[str, bool] = {
    "its user": True, "its user, at another tenant": True, "somebody of the tenant": True, "somebody of another": False,
    "mcp_due": True,
}  # fmt: skip
NEVER_MADE = "by header in middleware"


@pytest.fixture(params=PROJECTS)
def project(
    request: pytest.FixtureRequest, declared: Declared, settings: Any, transactional_db: None, monkeypatch: Any
) -> str:
    """Two rows of each of two tenants."""
    middleware, site, current = PROJECTS[request.param]
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, *([f"tests.transports.tenancy.{middleware}"] if middleware else [])]
    monkeypatch.setattr(mcp_django.site, "__class__", site)

    class TagAdmin(ModelAdmin):  # type: ignore[type-arg]
        fields = ("name",)

        def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
            return super().get_queryset(request).filter(name__startswith=f"{current(request) or 'nobody'}:")

    def drop(request: HttpRequest, tag: Tag) -> str:
        """Drop the first tag of the tenant."""
        Tag.objects.get(name=f"{current(request)}:1").delete()
        return "Dropped."

    declared.admin(Tag, TagAdmin)
    declared.tool(drop, consent=consent_of(request.node), permission="shop.delete_tag")
    declared.model(Tag, consent={"delete": consent_of(request.node)})
    Tag.objects.bulk_create(Tag(name=f"{tenant}:{number}") for tenant in "ab" for number in (1, 2))
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return str(request.param)


def consent_of(test: Any) -> str:
    return "ask" if test.callspec.params["who"].startswith("its user") else "approve"


def person(name: str, tenant: str) -> User:
    return staff(name, *APPROVER, last_name=tenant)


def browser(user: Any, tenant: str) -> Browser:
    return Browser(user, Host=f"{tenant}.example.com", **{"X-Tenant": tenant})


def decide(who: Browser, key: str) -> list[str]:
    """Agree with what anybody is shown, whatever the own page offers."""
    change = Change.objects.get(pk=key)
    try:
        digest = waiting_changes.shown(change).digest
    except waiting_changes.CannotApply:
        digest = "0" * 64
    choice = "apply" if change.needs["level"] == "ask" else "approve"
    response = who.decide(key, choice, digest=digest)
    return [] if response.status_code == 404 else said(response)


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi"])
@pytest.mark.parametrize("tool", ["delete_record", "drop"])
@pytest.mark.parametrize("who", MADE)
def test_a_change_is_made_in_the_tenant_of_its_agent_or_not_at_all(
    project: str, who: str, tool: str, peers: Peers, users: Users
) -> None:
    User.objects.filter(pk=users.admin.pk).update(last_name="a")
    bob, eve = person("bob", "a"), person("eve", "b")
    peer = peer_at(peers, token_of(users.admin, *ALL_SCOPES), "a")
    arguments: Any = {"model": "shop.tag", "ids": ["a:1"]} if tool == "delete_record" else {"tag": "a:1"}
    key = waiting(peer, tool, **arguments)
    clicking = {
        "its user": browser(users.admin, "a"), "its user, at another tenant": browser(users.admin, "b"),
        "somebody of the tenant": browser(bob, "a"), "somebody of another": browser(eve, "b"),
    }  # fmt: skip

    shown = clicking[who].page(key).content.decode() if who in clicking else ""
    if who == "mcp_due":
        change = Change.objects.get(pk=key)
        digest = "0" * 64 if project == NEVER_MADE else waiting_changes.shown(change).digest
        approvals.vote(change, bob, "approve", digest, "")
        call_command("mcp_due", verbosity=0)
    else:
        decide(clicking[who], key)

    is_made = MADE[who] and project != NEVER_MADE
    assert state_of(key) == ("applied" if is_made else "waiting")
    assert list(Tag.objects.order_by("name").values_list("name", flat=True)) == [
        *([] if is_made else ["a:1"]), "a:2", "b:1", "b:2",
    ]  # fmt: skip
    assert ('name="_apply"' in shown or 'name="_approve"' in shown) == (is_made and who in clicking)
    # Nobody of another tenant reads what is in this one.
    assert who != "somebody of another" or "a:1" not in shown


REASON = "the tag of a customer"
#: People at another host are told that something waits where nobody knows what chooses the tenant.
TOLD_ELSEWHERE = {"by host in middleware", "by header in middleware", "by host in call_context"}


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("who", ["somebody of another"])
def test_people_of_another_tenant_do_not_learn_what_waits_and_why(
    project: str, who: str, peers: Peers, users: Users
) -> None:
    User.objects.filter(pk=users.admin.pk).update(last_name="a")
    browsers = {name: browser(person(name, tenant), tenant) for name, tenant in (("bob", "a"), ("eve", "b"))}
    peer = peer_at(peers, token_of(users.admin, *ALL_SCOPES), "a")
    key = waiting(peer, "delete_record", model="shop.tag", ids=["a:1"], reason=REASON)
    pages = {}
    for name, own in browsers.items():
        paths = ("", "?q=admin", f"{key}/change/", f"{key}/reject-all/")
        pages[name] = [own.client.get(f"/admin/mcp_django/change/{path}", follow=True) for path in paths]
    texts = {name: "".join(one.content.decode() for one in shown) for name, shown in pages.items()}

    if project != NEVER_MADE:
        assert REASON in texts["bob"] and "admin" in texts["bob"] and "a:1" in texts["bob"]
    assert REASON not in texts["eve"] and "a:1" not in texts["eve"]
    # Without any tenant but the rows of each, people see that something waits.
    assert (f"{key}/change/" in texts["eve"]) == (project == "by user")
    assert ("1 change waits at another host" in texts["eve"]) == (project in TOLD_ELSEWHERE)
    assert "waits at another host" not in texts["bob"]


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.parametrize("project", [name for name in PROJECTS if name != "by user"], indirect=True)
@pytest.mark.parametrize("who", ["its user"])
def test_an_agent_that_works_in_two_tenants_undoes_and_repeats_in_each_alone(
    project: str, who: str, peers: Peers, users: Users
) -> None:
    token = token_of(users.admin, *ALL_SCOPES)
    here, there = (peer_at(peers, token, tenant) for tenant in "ab")
    since = "2020-01-01T00:00:00Z"
    new: Any = {"model": "shop.tag", "values": {"name": "b:3"}}
    there.call("create_record", **new, confirm=there.call("create_record", **new)["structuredContent"]["confirm"])
    made = Change.objects.get(state=Change.State.APPLIED).pk
    asked = {"model": "shop.tag", "ids": ["a:1"]}
    waits = waiting(here, "delete_record", **asked)

    assert here.call("undo_change", change=made)["isError"] and here.call("undo_change", since=since)["isError"]
    assert there.call("undo_change", since=since)["structuredContent"]["records"]["deleted"] == 1
    if project != NEVER_MADE:
        assert waiting(here, "delete_record", **asked) == waits


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.parametrize("project", ["by host in middleware", "by header in call_context"], indirect=True)
@pytest.mark.parametrize("who", ["somebody of another"])
def test_repeating_a_call_in_another_tenant_that_was_approved_in_the_first(
    project: str, who: str, peers: Peers, users: Users
) -> None:
    """Its run has died, so that the agent's own call may go on with it."""
    bob, token = person("bob", "a"), token_of(users.admin, *ALL_SCOPES)
    here, there = (peer_at(peers, token, tenant) for tenant in "ab")
    arguments: Any = {"model": "shop.tag", "ids": ["a:1"]}
    confirm = here.call("delete_record", **arguments)["structuredContent"]["confirm"]
    key = here.call("delete_record", **arguments, confirm=confirm)["structuredContent"]["change"]
    change = Change.objects.get(pk=key)
    approvals.vote(change, bob, "approve", waiting_changes.shown(change).digest, "")
    Change.objects.filter(pk=key).update(state="writing", lease_until=timezone.now() - timedelta(hours=1), run="x")

    told = there.call("delete_record", **arguments, confirm=confirm)

    assert told["isError"] and state_of(key) == "writing"


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("project", ["by header in call_context"], indirect=True)
@pytest.mark.parametrize("who", ["its user"])
def test_a_host_that_leads_to_another_tenant_by_now(
    project: str, who: str, peers: Peers, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = waiting(
        peer_at(peers, token_of(users.admin, *ALL_SCOPES), "a"), "delete_record", model="shop.tag", ids=["a:1"]
    )
    monkeypatch.setattr(ByHeader, "remember_key", lambda self, request: "moved")
    own = browser(users.admin, "a")

    shown = own.page(key).content.decode()
    told = decide(own, key)

    assert "leads to another tenant now" in shown and 'name="_apply"' not in shown
    assert "leads to another tenant now" in told[0] and state_of(key) == "waiting"


def lazy(text: str) -> Any:
    """As middleware puts a tenant on the request."""
    return SimpleLazyObject(lambda: text)


def test_rows_of_one_name_are_two_tenants() -> None:
    rows = [Tag(pk=f"{number}", name="Acme") for number in (1, 2)]
    named = [tenant_of(SimpleNamespace(remember_key=lambda _, key=key: key), HttpRequest())  # type: ignore[arg-type]
             for key in (*rows, ("a", rows[0]), frozenset("ab"), frozenset("ba"), 1, "1", lazy("1"), "")]  # fmt: skip

    assert len(set(named)) == len(named) - 2 and named[3] == named[4] and named[6] == named[7] and named[-1] == ""
