"""Lists that change while a stream is open: who is told, of which list, when, and at what cost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import OperationalError, connection
from django.test import Client

from demo_project.flights.models import Airline, Flight
from mcp_django import site
from mcp_django.db import outages
from mcp_django.db.interrupts import Interruptible
from mcp_django.models import AccessToken, Prompt, Tool
from mcp_django.override_rows import make_prompt_rows
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.push import list_changes
from mcp_django.push.hub import Hub
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.tools.catalog import AvailableTool
from tests.conftest import PUSHING
from tests.end_to_end.servers import wait_for
from tests.push.conftest import acknowledged, list_changed, listen, switch_a_tool, updated, watch
from tests.support.asking import request_of
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.leaving import Leaving, LeavingInContext
from tests.support.peers import LEGACY, MODERN, Peer, Peers, Watching

ON_EACH = pytest.mark.parametrize("transport", PUSHING)
ON_THE_DOOR = pytest.mark.parametrize("transport", ["http-asgi"])
ON_THE_DOOR_AND_A_SOCKET = pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

UA = "db://flights/airline/UA"
ALL = {f"{name}ListChanged": True for name in LISTS}
#: The methods that give each list.
METHODS = {"tools": ["tools/list"], "prompts": ["prompts/list"], "resources": ["resources/list"]}

Hubs = Callable[[], Hub]
Meanwhile = dict[str, Callable[[], None]]


@pytest.fixture(autouse=True)
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep finds by itself what these tests want told."""
    monkeypatch.setattr(list_changes, "_SWEPT_SECONDS", 3_600.0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Each list that was looked at from now on: for whom, and which."""
    looked: list[tuple[str, str]] = []
    written = list_changes._written

    def noted(page: Any, exchange: Any, revision: str) -> bytes:
        looked.append((exchange.request.user.username, page.method))
        return written(page, exchange, revision)

    monkeypatch.setattr(list_changes, "_written", noted)
    return looked


def watch_lists(peer: Peer, revision: str, *uris: str, listen_id: str = "sub-1") -> Watching:
    """Be told of all lists, and of some resources, in the way of the revision."""
    if revision != MODERN:
        return peer.watch(revision, list(uris))
    subscribed = {"resourceSubscriptions": list(uris)} if uris else {}
    watching = listen(peer, {**ALL, **subscribed}, listen_id)
    assert watching.next() == acknowledged(listen_id, **ALL, **subscribed)
    return watching


def listed(peer: Peer, revision: str = MODERN) -> dict[str, Any]:
    """What each list says now."""
    found = {name: [peer.result(revision, method) for method in methods] for name, methods in METHODS.items()}
    found["resources"].append(peer.result(revision, "resources/templates/list"))
    return found


def assert_told(watching: Watching, names: set[str], revision: str, listen_id: str = "sub-1") -> None:
    """A notification of each of these lists comes, and then of the airline: nothing else was told before."""
    tag = listen_id if revision == MODERN else None
    told = [watching.next() for _ in names]
    assert sorted(told, key=repr) == sorted((list_changed(name, tag) for name in names), key=repr)
    Airline.objects.get(pk="UA").save()
    assert watching.next() == updated(UA, tag)


# What changes a list.


def describe_a_tool(users: Users) -> None:
    tool = Tool.objects.get(name="get_record")
    tool.description = "Another description."
    tool.save()


def restrict_a_tool(users: Users) -> None:
    Tool.objects.get(name="get_record").groups.add(Group.objects.create(name="nobody"))


def entitle_a_prompt(users: Users) -> None:
    make_prompt_rows("default")
    prompt = Prompt.objects.get(name="punctuality_report")
    prompt.title = "Another title"
    prompt.save()


def write_a_prompt(users: Users) -> None:
    Prompt.objects.create(name="hello", text="Say hello.")


def take_a_permission_from_the_group(users: Users) -> None:
    Group.objects.get(name="Flight viewers").permissions.remove(Permission.objects.get(codename="view_airport"))


def take_the_group_from_the_user(users: Users) -> None:
    users.viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_airline", "view_flight"]))
    users.viewer.groups.clear()


def take_the_user_from_the_group(users: Users) -> None:
    users.viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_airline", "view_flight"]))
    Group.objects.get(name="Flight viewers").user_set.remove(users.viewer)


def delete_the_group(users: Users) -> None:
    users.viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_airline", "view_flight"]))
    Group.objects.get(name="Flight viewers").delete()


def make_a_superuser(users: Users) -> None:
    users.viewer.is_superuser = True
    users.viewer.save()


def narrow_the_token(users: Users) -> None:
    for token in AccessToken.objects.all():
        token.scopes = ["read"]
        token.save()


def delete_a_permission(users: Users) -> None:
    Permission.objects.get(codename="view_airport").delete()


MODELS_AND_WHAT_NAMES_THEM = {"tools", "resources"}


@ON_THE_DOOR
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (describe_a_tool, {"tools"}),
        (restrict_a_tool, {"tools"}),
        (entitle_a_prompt, {"prompts"}),
        (write_a_prompt, {"prompts"}),
        (take_a_permission_from_the_group, MODELS_AND_WHAT_NAMES_THEM),
        (take_the_group_from_the_user, MODELS_AND_WHAT_NAMES_THEM),
        (take_the_user_from_the_group, MODELS_AND_WHAT_NAMES_THEM),
        (delete_the_group, MODELS_AND_WHAT_NAMES_THEM),
        (delete_a_permission, MODELS_AND_WHAT_NAMES_THEM),
        (make_a_superuser, MODELS_AND_WHAT_NAMES_THEM),
    ],
)
def test_exactly_the_lists_that_are_others_now_are_told(
    viewer: Peer, users: Users, flights: Any, change: Callable[[Users], None], names: set[str]
) -> None:
    before = listed(viewer)
    watching = watch_lists(viewer, MODERN, UA)

    change(users)

    assert_told(watching, names, MODERN)
    after = listed(viewer)
    assert {name for name in LISTS if after[name] != before[name]} == names


@ON_EACH
@EACH_ERA
def test_the_list_is_the_new_one_when_its_change_is_told(
    viewer: Peer, users: Users, flights: Any, revision: str
) -> None:
    watching = watch_lists(viewer, revision, UA)
    before = listed(viewer, revision)

    take_a_permission_from_the_group(users)
    told = watching.next()
    after = listed(viewer, revision)

    tag = "sub-1" if revision == MODERN else None
    both = [list_changed("resources", tag), list_changed("tools", tag)]
    assert sorted([told, watching.next()], key=repr) == sorted(both, key=repr)
    assert {name for name in LISTS if after[name] != before[name]} == {"tools", "resources"}
    assert_told(watching, set(), revision)


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi", "websocket"])
@EACH_ERA
def test_the_scopes_of_a_token_change_its_lists(ops: Peer, users: Users, flights: Any, revision: str) -> None:
    watching = watch_lists(ops, revision, UA)
    before = ops.tools(revision)

    narrow_the_token(users)

    assert_told(watching, {"tools"}, revision)
    assert set(before) - set(ops.tools(revision)) == {"flights_flight_mark_cancelled"}


@ON_THE_DOOR
@pytest.mark.parametrize("way", ["the list", "an action"])
def test_what_an_administrator_does_to_many_rows_at_once_is_told(
    viewer: Peer, users: Users, flights: Any, way: str
) -> None:
    watching = watch_lists(viewer, MODERN, UA)
    row = Tool.objects.get(name="get_record")
    browser = Client()
    browser.force_login(users.admin)

    if way == "the list":
        form = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-id": row.pk, "_save": "Save"}
        answer = browser.post("/admin/mcp_django/tool/?q=get_record", form)
    else:
        answer = browser.post("/admin/mcp_django/tool/", {"action": "disable", "_selected_action": [row.pk]})

    assert answer.status_code == 302
    assert_told(watching, {"tools"}, MODERN)
    assert "get_record" not in viewer.tools()


@ON_THE_DOOR
def test_a_title_is_told_to_those_whose_revision_has_titles(peers: Peers, users: Users, flights: Any) -> None:
    token = token_of(users.viewer)
    old, new = (watch_lists(peers(token), revision, UA) for revision in (LEGACY[0], LEGACY[-1]))

    entitle_a_prompt(users)

    assert_told(new, {"prompts"}, LEGACY[-1])
    assert old.next() == updated(UA)


@ON_EACH
def test_each_list_is_told_to_who_asked_for_it(viewer: Peer, users: Users, flights: Any) -> None:
    watching = listen(
        viewer, {"resourcesListChanged": True, "promptsListChanged": False, "resourceSubscriptions": [UA]}
    )
    assert watching.next() == acknowledged("sub-1", resourcesListChanged=True, resourceSubscriptions=[UA])

    take_a_permission_from_the_group(users)

    assert_told(watching, {"resources"}, MODERN)


@ON_THE_DOOR
@pytest.mark.parametrize("name", LISTS)
def test_who_is_told_of_no_list_costs_nothing(
    viewer: Peer, users: Users, flights: Any, hub: Hubs, looks: list[Any], name: str
) -> None:
    watching = watch(viewer, MODERN, UA)
    other = listen(viewer, {f"{name}ListChanged": False, "resourceSubscriptions": [UA]}, "other")
    assert other.next() == acknowledged("other", resourceSubscriptions=[UA])

    take_a_permission_from_the_group(users)
    switch_a_tool()

    Airline.objects.get(pk="UA").save()
    assert [watching.next(), other.next()] == [updated(UA, "sub-1"), updated(UA, "other")]
    assert looks == []
    assert hub().lists._audiences == {}


# What does not.


@ON_THE_DOOR
@pytest.mark.parametrize(
    "change",
    [
        lambda users: users.viewer.save(),
        lambda users: Tool.objects.get(name="get_record").save(),
        lambda users: Group.objects.create(name="of others").permissions.add(*Permission.objects.all()[:3]),
        lambda users: users.viewer.groups.add(Group.objects.create(name="without permissions")),
        lambda users: Flight.objects.get(pk=1).save(),
    ],
)
def test_what_leaves_the_lists_as_they_were_is_not_told(
    viewer: Peer, users: Users, flights: Any, change: Callable[[Users], None]
) -> None:
    watching = watch_lists(viewer, MODERN, UA)

    change(users)
    describe_a_tool(users)

    assert_told(watching, {"tools"}, MODERN)


@ON_THE_DOOR
def test_new_contents_of_a_resource_do_not_change_the_list(
    viewer: Peer, users: Users, flights: Any, declared: Declared
) -> None:
    declared.model(Flight, fields=["departs_at"], last_modified_field="departs_at")
    before = listed(viewer)
    watching = watch_lists(viewer, MODERN, UA)

    flights[0].departs_at = flights[0].departs_at.replace(year=2014)
    flights[0].save()
    users.viewer.save()

    describe_a_tool(users)
    assert_told(watching, {"tools"}, MODERN)
    assert listed(viewer)["resources"] != before["resources"]


@ON_THE_DOOR
def test_after_a_gap_the_lists_are_compared_and_nothing_is_told_that_did_not_change(
    viewer: Peer, users: Users, flights: Any, hub: Hubs, looks: list[Any]
) -> None:
    watching = watch_lists(viewer, MODERN)
    looks.clear()

    hub().resync()
    wait_for(lambda: len(looks) == 4, "a look at each list")
    Tool.objects.filter(name="get_record").update(enabled=False)
    hub().resync()

    assert watching.next() == list_changed("tools", "sub-1")
    write_a_prompt(users)
    assert watching.next() == list_changed("prompts", "sub-1")


# Attacks.


@ON_THE_DOOR_AND_A_SOCKET
@EACH_ERA
def test_the_rights_of_others_cannot_be_observed_by_listening(
    peers: Peers, users: Users, flights: Any, revision: str
) -> None:
    spying = watch_lists(peers(token_of(users.ops)), revision, UA)
    watching = watch_lists(peers(token_of(users.viewer)), revision)
    tag = "sub-1" if revision == MODERN else None

    take_a_permission_from_the_group(users)
    told = [watching.next() for _ in range(2)]
    users.viewer.groups.clear()
    told += [watching.next() for _ in range(3)]
    for token in AccessToken.objects.filter(user=users.viewer):
        token.revoke()
    User.objects.filter(pk=users.admin.pk).delete()
    Tool.objects.get(name="get_record").groups.add(Group.objects.get(name="JFK operations"))

    names = ["tools", "resources", "tools", "prompts", "resources"]
    assert told == [list_changed(name, tag) for name in names]
    assert_told(spying, set(), revision)


@ON_THE_DOOR
def test_toggling_a_switch_without_end_makes_no_more_work_than_one_toggle(
    viewer: Peer, users: Users, flights: Any, looks: list[Any], monkeypatch: pytest.MonkeyPatch, peers: Peers
) -> None:
    monkeypatch.setattr(list_changes, "_PAUSE_SECONDS", 3_600.0)
    watching = watch_lists(viewer, MODERN, UA)
    looks.clear()

    for _ in range(101):
        switch_a_tool()
        users.viewer.save()
    wait_for(lambda: ("viewer", "tools/list") in looks, "the first comparison")
    # All of it was heard.
    Airline.objects.get(pk="UA").save()
    while watching.next() != updated(UA, "sub-1"):
        pass
    # Somebody else is not made to wait.
    other = watch_lists(peers(token_of(users.ops)), MODERN, UA, listen_id="other")
    switch_a_tool()

    assert other.next() == list_changed("tools", "other")
    assert [method for name, method in looks if name == "viewer"].count("tools/list") == 1


@ON_THE_DOOR
def test_the_last_toggle_of_a_flood_is_told(viewer: Peer, users: Users, flights: Any) -> None:
    watching = watch_lists(viewer, MODERN)
    known = set(viewer.tools())

    for _ in range(51):
        switch_a_tool()

    assert watching.next() == list_changed("tools", "sub-1")
    # Told as often as it takes to know the end, and no more often.
    while set(viewer.tools()) == known:
        assert watching.next() == list_changed("tools", "sub-1")
    assert known - set(viewer.tools()) == {"get_record"}


def test_the_many_connections_of_one_principal_do_not_hold_up_others() -> None:
    flood = [list_changes.Audience("user:1") for _ in range(1_000)]
    victims = [list_changes.Audience("user:2"), list_changes.Audience("user:3")]

    assert list_changes.in_turns([*flood, *victims])[:3] == [flood[0], *victims]


@ON_THE_DOOR
def test_nothing_that_a_list_says_stays_in_memory(viewer: Peer, users: Users, flights: Any, hub: Hubs) -> None:
    watching = watch_lists(viewer, MODERN)

    [group] = hub().lists._audiences.values()
    kept = dict(group.digests)
    watching.close()
    viewer.close()

    assert {name: (type(digest), len(digest)) for name, digest in kept.items()} == dict.fromkeys(LISTS, (bytes, 32))
    assert (hub().lists._audiences, dict(hub().lists._of_principal)) == ({}, {})


# At what cost.


@ON_EACH
def test_listeners_of_equal_rights_are_looked_at_once(
    peers: Peers, users: Users, flights: Any, looks: list[Any]
) -> None:
    token = token_of(users.viewer)
    watched = [watch_lists(peers(token), MODERN, listen_id=f"sub-{number}") for number in range(5)]
    every = [
        ("viewer", method) for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    ]
    first = sorted(looks)
    looks.clear()

    make_a_superuser(users)

    for number, watching in enumerate(watched):
        told = sorted([watching.next(), watching.next()], key=repr)
        tag = f"sub-{number}"
        assert told == sorted([list_changed("tools", tag), list_changed("resources", tag)], key=repr)
    assert (first, sorted(looks)) == (sorted(every), sorted(every))


@ON_THE_DOOR
def test_a_change_of_one_user_is_compared_for_that_user_alone(
    peers: Peers, users: Users, flights: Any, looks: list[Any]
) -> None:
    watch_lists(peers(token_of(users.ops)), MODERN)
    watching = watch_lists(peers(token_of(users.viewer)), MODERN)
    looks.clear()

    make_a_superuser(users)
    watching.next()

    assert {name for name, _ in looks} == {"viewer"}


@ON_THE_DOOR
def test_all_members_of_a_group_are_told(peers: Peers, users: Users, flights: Any) -> None:
    group = Group.objects.get(name="Flight viewers")
    members = [make_staff(f"member {number}") for number in range(25)]
    group.user_set.add(*members)
    watched = [watch_lists(peers(token_of(member)), MODERN) for member in members]

    take_a_permission_from_the_group(users)

    both = sorted([list_changed("tools", "sub-1"), list_changed("resources", "sub-1")], key=repr)
    assert [sorted([watching.next(), watching.next()], key=repr) for watching in watched] == [both] * 25


# What no signal tells of, and what goes wrong.


@ON_THE_DOOR_AND_A_SOCKET
def test_what_was_changed_without_a_signal_is_found_by_the_sweep(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = watch_lists(viewer, MODERN, UA)

    Tool.objects.filter(name="get_record").update(enabled=False)
    monkeypatch.setattr(list_changes, "_SWEPT_SECONDS", 0.0)

    assert_told(watching, {"tools"}, MODERN)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """What happens before and after the first look at the lists of a stream."""
    happens: Meanwhile = {}
    first_look = list_changes.first_look

    def look(*args: Any) -> dict[str, bytes]:
        happens.get("before", lambda: None)()
        found = first_look(*args)
        happens.get("after", lambda: None)()
        return found

    monkeypatch.setattr(list_changes, "first_look", look)
    return happens


@ON_EACH
@EACH_ERA
def test_a_change_that_is_compared_while_the_first_look_goes_on_is_not_taken_back_by_it(
    viewer: Peer, users: Users, flights: Any, revision: str, hub: Hubs, meanwhile: Meanwhile
) -> None:
    def change() -> None:
        [group] = hub().lists._audiences.values()
        in_a_thread(lambda: describe_a_tool(users))
        wait_for(lambda: "tools" in group.digests, "the comparison")

    meanwhile["after"] = change
    watching = watch_lists(viewer, revision, UA)
    Airline.objects.get(pk="UA").save()
    tag = "sub-1" if revision == MODERN else None
    assert watching.next() == updated(UA, tag)

    # As it was at the first look.
    Tool.objects.get(name="get_record").delete()

    assert_told(watching, {"tools"}, revision)


@ON_THE_DOOR
def test_a_change_right_before_the_first_look_is_in_the_list(
    viewer: Peer, users: Users, flights: Any, meanwhile: Meanwhile
) -> None:
    meanwhile["before"] = lambda: in_a_thread(lambda: describe_a_tool(users))

    watching = watch_lists(viewer, MODERN, UA)
    described = {tool["name"]: tool["description"] for tool in viewer.result(MODERN, "tools/list")["tools"]}

    assert described["get_record"] == "Another description."
    assert_told(watching, set(), MODERN)


def in_a_thread(work: Callable[[], None]) -> None:
    """Somebody else does it, and has done it when this returns."""

    def run() -> None:
        work()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)


@ON_THE_DOOR
def test_a_change_is_told_although_the_database_was_away_at_the_first_look(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(list_changes, "_digests", fail_with(OperationalError("away")))
        watching = watch_lists(viewer, MODERN, UA)

    describe_a_tool(users)

    assert_told(watching, {"tools"}, MODERN)


@ON_THE_DOOR
def test_a_change_is_told_once_the_database_is_there_again(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(list_changes, "_AFTER_ERROR_SECONDS", 0.01)
    watching = watch_lists(viewer, MODERN, UA)

    with monkeypatch.context() as broken:
        broken.setattr(list_changes, "_digests", fail_with(OperationalError("away")))
        describe_a_tool(users)
        wait_for(lambda: caplog.text.count("trying again") > 1, "two failures")

    assert_told(watching, {"tools"}, MODERN)


@ON_THE_DOOR
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError, "Lists could not be compared with what they were; no client is notified"),
        (SystemExit, "Lists could not be compared with what they were; no client is notified"),
        # Of a tenant whose database is away, say.
        (OperationalError, "Lists cannot be compared with what they were; trying again: no tenant"),
    ],
)
def test_a_context_that_fails_for_one_principal_silences_no_other(
    peers: Peers,
    users: Users,
    flights: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
    said: str,
) -> None:
    watch_lists(peers(token_of(users.ops)), MODERN)
    watching = watch_lists(peers(token_of(users.viewer)), MODERN, UA)
    call_context = type(site).call_context

    def fail_for_ops(self: Any, request: Any) -> Any:
        if request.user.username == "ops":
            raise error("no tenant")
        return call_context(self, request)

    monkeypatch.setattr(type(site), "call_context", fail_for_ops)
    describe_a_tool(users)

    assert_told(watching, {"tools"}, MODERN)
    assert said in caplog.text


@ON_THE_DOOR
@pytest.mark.parametrize("is_away", [False, True])
def test_a_list_that_cannot_be_given_any_more_has_changed(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    watching = watch_lists(viewer, MODERN)

    with monkeypatch.context() as broken:
        broken.setattr(outages, "is_database_away", lambda: is_away)
        broken.setattr(AvailableTool, "describe", fail_with(SystemExit(1)))
        users.viewer.save()
        gone = watching.next()
    users.viewer.save()

    assert [gone, watching.next()] == [list_changed("tools", "sub-1")] * 2


def fail_with(error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
def test_of_the_streams_of_a_session_the_newest_is_told(viewer: Peer, users: Users, flights: Any) -> None:
    older = watch_lists(viewer, LEGACY[-1], UA)
    newer = viewer.watch(LEGACY[-1], [])

    describe_a_tool(users)
    assert_told(newer, {"tools"}, LEGACY[-1])
    newer.close()

    assert_told(older, set(), LEGACY[-1])


def test_a_client_that_leaves_while_its_lists_are_read_is_no_fault(
    users: Users, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(users.viewer)
    monkeypatch.setattr(list_changes, "current_request", lambda _: request)
    listener = Listener(site=site, principal=request.mcp.principal, request=request, lists=frozenset(LISTS))
    given_up = Interruptible()
    given_up.interrupted = True

    with given_up.answering(), pytest.raises(RequestCancelled):
        list_changes.first_look(listener, LISTS)

    assert caplog.text == ""


@ON_THE_DOOR
@EACH_ERA
@pytest.mark.parametrize("hook", [Leaving, LeavingInContext])
def test_a_database_that_goes_away_while_lists_are_compared_changes_none(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, revision: str, hook: type[Leaving]
) -> None:
    monkeypatch.setattr(list_changes, "_AFTER_ERROR_SECONDS", 0.01)
    leaving = hook("flights.flight", monkeypatch)
    watching = watch_lists(peers(token_of(users.viewer)), revision, UA)
    leaving.times = 2

    users.viewer.save()
    wait_for(lambda: not leaving.times, "two comparisons in vain")

    assert_told(watching, set(), revision)
