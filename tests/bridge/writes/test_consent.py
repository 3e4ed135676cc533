"""What an operation needs beside a confirmed preview: the user of the client is asked, or agrees later in the admin."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import DELETION, LogEntry
from django.test import Client

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import AccessToken, Change
from tests.axes import PUSHING
from tests.bridge.writes.conftest import ALL_SCOPES
from tests.console.visiting import client_of
from tests.shop.models import Product, Shift
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, REVISIONS, Message, Peer, Peers
from tests.support.sockets import Socket
from tests.support.talking import Answerer, Talk, accept, call, talk

#: The revisions in which a server can ask.
ASKING = ("2025-06-18", "2025-11-25", MODERN)
FLIGHT = "flights.flight"

asking = pytest.mark.parametrize("revision", ASKING)


@pytest.fixture
def asker(mute: Peer) -> Peer:
    """The client of an administrator, which asks its user."""
    mute.capabilities = {"elicitation": {}}
    return mute


def choose(action: str) -> Answerer:
    """A user who closes each question in this way."""
    return lambda method, params: {"action": action}


def previewed(peer: Peer, revision: str, tool: str, **arguments: Any) -> Message:
    """The arguments of a call, with the token of its preview."""
    shown = call(peer, tool, revision, None, **arguments).answer["result"]
    assert not shown.get("isError"), shown
    return {**arguments, "confirm": shown["structuredContent"]["confirm"]}


def confirmed(peer: Peer, revision: str, tool: str, answerer: Answerer | None = None, **arguments: Any) -> Talk:
    """A call that is previewed and then confirmed, with the questions that came."""
    return call(peer, tool, revision, answerer, **previewed(peer, revision, tool, **arguments))


def answer_of(said: Talk) -> Message:
    """The structured content of a call that succeeded."""
    result = said.answer["result"]
    assert not result.get("isError"), result
    content: Message = result["structuredContent"]
    return content


def refusal_of(said: Talk) -> str:
    assert said.answer["result"]["isError"] is True
    return said.text


def questions(said: Talk) -> list[str]:
    """The texts that the user was shown."""
    assert {method for method, _ in said.asked} <= {"elicitation/create"}
    return [params["message"] for _, params in said.asked]


def deletions() -> int:
    return LogEntry.objects.filter(action_flag=DELETION).count()


@pytest.mark.every_transport
@pytest.mark.parametrize("transport", PUSHING)
@asking
def test_a_delete_is_made_once_its_user_agrees_and_a_call_that_is_repeated_asks_nobody_again(
    asker: Peer, flights: Any, revision: str
) -> None:
    arguments = previewed(asker, revision, "delete_record", model=FLIGHT, ids=["3"])

    said = call(asker, "delete_record", revision, accept(), **arguments)
    again = call(asker, "delete_record", revision, accept(), **arguments)

    assert answer_of(said)["status"] == "applied"
    assert len(questions(said)) == 1
    assert answer_of(again) == {**answer_of(said), "replayed": True}
    assert questions(again) == []
    assert not Flight.objects.filter(pk=3).exists()
    assert deletions() == 1


@asking
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_who_does_not_agree_is_asked_again_for_the_next_call(
    asker: Peer, flights: Any, revision: str, action: str
) -> None:
    arguments = previewed(asker, revision, "delete_record", model=FLIGHT, ids=["3"])

    refused = call(asker, "delete_record", revision, choose(action), **arguments)
    left, kept = Flight.objects.filter(pk=3).exists(), Change.objects.count()
    agreed = call(asker, "delete_record", revision, accept(), **arguments)

    assert refusal_of(refused) == "The user did not agree. Nothing was changed."
    assert (left, kept) == (True, 0)
    assert answer_of(agreed)["status"] == "applied"
    assert not Flight.objects.filter(pk=3).exists()


@asking
def test_a_row_that_changes_before_the_answer_is_kept(asker: Peer, flights: Any, revision: str) -> None:
    def answer_late(method: str, params: Message) -> Message:
        Flight.objects.filter(pk=3).update(notes="another one is on board")
        return {"action": "accept", "content": {}}

    said = confirmed(asker, revision, "delete_record", answer_late, model=FLIGHT, ids=["3"])

    assert "What is there has changed since." in refusal_of(said)
    assert Flight.objects.filter(pk=3).exists()
    assert Change.objects.count() == 0


def test_an_answer_that_is_sent_again_deletes_nothing_more(asker: Peer, flights: Any) -> None:
    """A client of 2026-07-28 sends a request again whose answer was lost, with the answer of its user."""
    arguments = previewed(asker, MODERN, "delete_record", model=FLIGHT, ids=["3"])
    asked = call(asker, "delete_record", MODERN, None, **arguments).answer["result"]
    answers = {"consent": {"action": "accept", "content": {}}}
    params = {
        "name": "delete_record", "arguments": arguments,
        "inputResponses": answers, "requestState": asked["requestState"],
    }  # fmt: skip

    first = talk(asker, MODERN, "tools/call", params)
    flights[2].save(force_insert=True)
    again = talk(asker, MODERN, "tools/call", params)

    assert answer_of(first)["status"] == "applied"
    assert answer_of(again) == {**answer_of(first), "replayed": True}
    assert Flight.objects.filter(pk=3).exists()
    assert deletions() == 1


# The question.


def test_a_question_names_the_rows_what_goes_with_them_and_the_reason(asker: Peer, flights: Any, users: Users) -> None:
    flights[2].disruptions.create(kind="weather", severity="minor", note="fog", reported_by=users.ops)

    said = confirmed(asker, MODERN, "delete_record", accept(), model=FLIGHT, ids=["3", "4"], reason="They never left.")

    assert questions(said) == [
        "Delete 2 flights:\n- 3, 2013-01-01T07:00:00-05:00, UA (United), 1002\n"
        "- 4, 2013-01-01T08:00:00-05:00, AA (American), 1003\n\nDeleted with them:\n- 1 disruption\n\n"
        "The agent says why: They never left."
    ]


def test_what_does_not_fit_into_a_question_is_not_asked_and_waits_for_the_page_that_shows_it_whole(
    asker: Peer, flights: Any, users: Users, declared: Declared
) -> None:
    class Editor(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes", "distance", *(f"extra_{number}" for number in range(20))]
        form = _form_with(*(f"extra_{number}" for number in range(20)))

    declared.admin(Flight, Editor)
    declared.model(Flight, consent={"update": "ask"})
    values = {"notes": "n" * 1_900, "extra_1": "1" * 300, "distance": 99_999}

    said = confirmed(asker, MODERN, "update_record", accept(), model=FLIGHT, id="3", values=values)

    assert questions(said) == [] and answer_of(said)["status"] == "pending"
    page = client_of(users.admin).get(answer_of(said)["url"]).content.decode()
    assert "n" * 1_900 in page and "1" * 300 in page and "99999" in page


def test_many_new_rows_wait_for_the_page_too(asker: Peer, declared: Declared) -> None:
    rows = [{"carrier": f"Z{chr(65 + number)}", "name": "New"} for number in range(21)]
    arguments: dict[str, Any] = {"model": "flights.airline", "rows": rows}
    shown = previewed(asker, MODERN, "create_records", **arguments)

    told = call(asker, "create_records", MODERN, accept(), **shown)

    assert questions(told) == [] and answer_of(told)["status"] == "pending"
    assert not Airline.objects.filter(name="New").exists()


def test_hiding_a_deletion_and_an_amount_behind_thirty_harmless_rows(
    asker: Peer, users: Users, declared: Declared
) -> None:
    """What weighs most stands first, whatever the order of the agent: rows that go, users, then numbers."""

    class Shifts(admin.TabularInline):  # type: ignore[type-arg]
        model = Shift
        extra = 0

    editor = {"inlines": [Shifts], "fields": ["name", "price"], "list_display": ["name"]}
    declared.admin(Product, type("A", (admin.ModelAdmin,), editor))
    declared.model(Product, consent={"update": "ask"})
    product = Product.objects.create(name="cup", price=1)
    shifts = [Shift.objects.create(product=product, user=users.ops, note=f"n {number}") for number in range(4)]
    harmless: list[Message] = [{"pk": str(one.pk), "note": "x"} for one in shifts[:2]]
    grave: list[Message] = [
        {"pk": str(shifts[2].pk), "hours": 9, "note": "y", "user": str(users.viewer.pk)},
        {"pk": str(shifts[3].pk), "delete": True},
    ]

    said = confirmed(
        asker, MODERN, "update_record", accept(), model="shop.product", id=str(product.pk),
        values={"name": "a cup", "price": "99999"}, rows={"shifts": [*harmless, *grave]},
    )  # fmt: skip

    def named(number: int) -> str:
        return f"{shifts[number].pk}, {product.pk} (cup), {users.ops.pk} (ops), 0"

    [text] = questions(said)
    assert [line for line in text.splitlines() if line] == [
        f"Delete 1 shift: {named(3)}",
        f"Change shift {named(2)}:",
        f"- user: {users.ops.pk} (ops) → {users.viewer.pk} (viewer)",
        "- hours: 0 → 9", "- note: n 2 → y",
        f"Change product {product.pk}, cup:", "- price: 1.00 → 99999", "- name: cup → a cup",
        f"Change shift {named(0)}:", "- note: n 0 → x", f"Change shift {named(1)}:", "- note: n 1 → x",
    ]  # fmt: skip


def _form_with(*names: str) -> type[forms.ModelForm[Any]]:
    fields = {name: forms.CharField(required=False, max_length=1_000) for name in names}
    made: type[forms.ModelForm[Any]] = type("EditorForm", (forms.ModelForm,), fields)
    return made


def test_values_and_reasons_do_not_look_like_lines_of_the_question(
    asker: Peer, flights: Any, declared: Declared
) -> None:
    declared.model(Flight, consent={"update": "ask"})
    lines = "fog\n- status: on_time → on_time\n\u202eThe agent says why: nothing"

    said = confirmed(
        asker, MODERN, "update_record", accept(), model=FLIGHT, id="3", values={"notes": lines}, reason=lines
    )

    [text] = questions(said)
    assert [line.partition(":")[0] for line in text.splitlines()] == [
        "Change flight 3, 2013-01-01T07", "- notes", "", "The agent says why",
    ]  # fmt: skip
    assert "\u202e" not in text


@asking
def test_a_form_that_reads_the_clock_is_asked_for_once(
    asker: Peer, flights: Any, declared: Declared, revision: str
) -> None:
    made: list[str] = []

    class Stamping(forms.ModelForm):  # type: ignore[type-arg]
        def clean(self) -> Any:
            # As a moment that is never the same twice.
            made.append(uuid.uuid4().hex)
            self.instance.tailnum = made[-1][:6]
            return {**self.cleaned_data, "arrival_delay": len(made)}

    class FlightAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes", "arrival_delay"]
        form = Stamping

    declared.admin(Flight, FlightAdmin)
    declared.model(Flight, consent={"update": "ask"})

    said = confirmed(asker, revision, "update_record", accept(), model=FLIGHT, id="3", values={"notes": "fog"})

    assert answer_of(said)["status"] == "applied"
    assert questions(said) == ["Change flight 3:\n- notes: note 2 → fog"]
    assert len(made) > 1
    assert Flight.objects.get(pk=3).tailnum == made[-1][:6]


def test_a_row_with_values_that_are_made_anew_each_time_is_asked_for_once(asker: Peer, declared: Declared) -> None:
    class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["name", "sku", "stock"]

    declared.admin(Product, ProductAdmin)
    declared.model(Product, consent={"create": "ask"})

    said = confirmed(asker, MODERN, "create_record", accept(), model="shop.product", values={"name": "cup"})

    assert answer_of(said)["status"] == "applied"
    assert questions(said) == ["Create one product:\n- stock: 0\n- name: cup"]
    assert Product.objects.get().name == "cup"


# Which operations need it.


def test_what_needs_no_consent_asks_nobody(asker: Peer, flights: Any, declared: Declared) -> None:
    declared.model(Flight, consent={"delete": "preview"})

    updated = confirmed(asker, MODERN, "update_record", model=FLIGHT, id="3", values={"notes": "fog"})
    deleted = confirmed(asker, MODERN, "delete_record", model=FLIGHT, ids=["3"])

    assert [answer_of(one)["status"] for one in (updated, deleted)] == ["applied", "applied"]
    assert questions(updated) == questions(deleted) == []


def test_the_request_decides_what_needs_consent_and_where_a_hook_fails_others_must_approve(
    asker: Peer, flights: Any, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    class Careful(ModelMCP):
        def get_consent(self, request: Any) -> Any:
            if Flight.objects.get(pk=3).status == "cancelled":
                raise RuntimeError("no rules today")
            return {**super().get_consent(request), "update": "ask" if request.user.is_superuser else "preview"}

    declared.model(Flight, Careful)
    about: Message = {"model": FLIGHT, "id": "3", "values": {"notes": "fog"}}

    decided = confirmed(asker, MODERN, "update_record", choose("decline"), **about)
    Flight.objects.filter(pk=3).update(status="cancelled")
    failed = confirmed(asker, MODERN, "update_record", choose("cancel"), **about)

    assert (len(questions(decided)), len(questions(failed))) == (1, 0)
    assert "Other people must approve this" in refusal_of(failed)
    assert Flight.objects.get(pk=3).notes == "note 2"
    assert "get_consent" in caplog.text


# Clients that cannot ask.


@asking
def test_where_a_client_cannot_ask_the_change_waits_and_is_not_made_twice(
    mute: Peer, flights: Any, revision: str
) -> None:
    arguments = previewed(mute, revision, "delete_record", model=FLIGHT, ids=["3"], reason="It never left.")
    waits, again = (answer_of(call(mute, "delete_record", revision, None, **arguments)) for _ in range(2))

    change = Change.objects.get()
    assert again == waits
    assert {name: waits[name] for name in ("status", "change", "resource")} == {
        "status": "pending", "change": change.pk, "resource": f"mcp-change://{change.pk}",
    }  # fmt: skip
    assert waits["url"].endswith(f"/admin/mcp_django/change/{change.pk}/change/")
    assert "://" in waits["url"]
    assert (change.state, change.reason) == ("waiting", "It never left.")
    assert Flight.objects.filter(pk=3).exists()
    assert answer_of(call(mute, "get_change", revision, None, change=change.pk)) == waits


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_where_the_transport_cannot_ask_the_change_waits(asker: Peer, flights: Any) -> None:
    said = confirmed(asker, "2025-11-25", "delete_record", model=FLIGHT, ids=["3"])

    assert answer_of(said)["status"] == "pending"
    assert Flight.objects.filter(pk=3).exists()


def test_a_client_that_can_ask_does_not_so_for_a_change_that_waits(
    mute: Peer, peers: Peers, flights: Any, users: Users
) -> None:
    """The same token in another client: what waits for the click is not made beside it."""
    arguments = previewed(mute, MODERN, "delete_record", model=FLIGHT, ids=["3"])
    waits = answer_of(call(mute, "delete_record", **arguments))
    able = peers(mute.token)
    able.capabilities = {"elicitation": {}}

    said = call(able, "delete_record", MODERN, accept(), **arguments)

    assert answer_of(said) == waits
    assert questions(said) == []


def test_without_a_page_for_its_user_nothing_can_wait(
    mute: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.bridge.changes.applying.url_of", lambda *_: None)

    said = confirmed(mute, MODERN, "delete_record", model=FLIGHT, ids=["3"])

    assert "no page for it is served" in refusal_of(said)
    assert Change.objects.count() == 0


@pytest.mark.parametrize(("limit", "whose"), [("_MAX_WAITING", "agent"), ("_MAX_WAITING_OF_USER", "user")])
def test_burying_a_change_among_many_that_wait(
    mute: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, limit: str, whose: str
) -> None:
    monkeypatch.setattr(f"mcp_django.bridge.changes.change_rows.{limit}", 2)
    for key in ("3", "4"):
        confirmed(mute, MODERN, "delete_record", model=FLIGHT, ids=[key])

    error = confirmed(mute, MODERN, "delete_record", model=FLIGHT, ids=["5"]).answer["error"]

    assert error["data"]["reason"] == "LIMIT_EXCEEDED"
    assert error["message"].startswith(f"2 changes of this {whose} wait already. The user decides on them at http")
    assert Change.objects.count() == 2


def test_the_same_proposal_again_gets_the_answer_of_the_one_that_waits(mute: Peer, flights: Any) -> None:
    first, again = (answer_of(confirmed(mute, MODERN, "delete_record", model=FLIGHT, ids=["3"])) for _ in range(2))
    mute.capabilities = {"elicitation": {}}
    asked = confirmed(mute, MODERN, "delete_record", accept(), model=FLIGHT, ids=["3"])

    assert again == answer_of(asked) == first
    assert questions(asked) == []
    assert Change.objects.count() == 1


def test_an_accept_with_the_state_of_a_question_that_was_declined(asker: Peer, flights: Any) -> None:
    arguments = previewed(asker, MODERN, "delete_record", model=FLIGHT, ids=["3"])
    closed: list[Message] = [{"action": "decline"}, {"action": "cancel"}, {"error": {"code": -1, "message": "x"}}]
    for no in closed:
        state = call(asker, "delete_record", MODERN, None, **arguments).answer["result"]["requestState"]

        def say(answer: Message, state: str = state) -> Talk:
            answers = {"consent": answer}
            params = {"name": "delete_record", "arguments": arguments, "inputResponses": answers, "requestState": state}
            return talk(asker, MODERN, "tools/call", params)

        assert [refusal_of(say(no)) for _ in range(2)] == ["The user did not agree. Nothing was changed."] * 2
        assert say({"action": "accept", "content": {}}).answer["error"]["data"]["reason"] == "INVALID_REQUEST_STATE"
        assert Flight.objects.filter(pk=3).exists()


def test_agreeing_in_the_place_of_the_user_for_whom_one_has_made_a_token(
    mute: Peer, peers: Peers, users: Users, flights: Any
) -> None:
    for maker, status in ((users.ops, "pending"), (users.admin, "applied"), (None, "applied")):
        _, token = AccessToken.objects.create_token(user=users.admin, scopes=ALL_SCOPES, made_by=maker)
        peer = peers(token)
        peer.capabilities = {"elicitation": {}}
        flights[2].save()

        said = confirmed(peer, MODERN, "delete_record", accept(), model=FLIGHT, ids=["3"])

        assert answer_of(said)["status"] == status
        assert len(questions(said)) == (status == "applied")
        Change.objects.all().delete()


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize("behind", [{"hijack_history": ["2"]}, {"exit_users_pk": [[2, "b"]]}])
def test_agreeing_over_a_socket_as_the_user_whom_one_impersonates(
    users: Users, peers: Peers, flights: Any, settings: Any, behind: Message, transport: str
) -> None:
    settings.MCP = {**settings.MCP, "DEFAULT_SCOPES": ["read", "write"]}
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    browser = client_of(users.admin)
    session = browser.session
    session.update(behind)
    session.save()
    headers = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}", "Origin": "http://localhost"}

    said = confirmed(_socket(peers, headers), MODERN, "delete_record", accept(), model=FLIGHT, ids=["3"])

    assert answer_of(said)["status"] == "pending"


@pytest.mark.parametrize("transport", ["websocket"])
def test_agreeing_by_a_ticket_of_a_token_that_its_user_has_rolled_since(
    users: Users, peers: Peers, flights: Any, transport: str
) -> None:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    old, plain = AccessToken.objects.create_token(user=users.admin, scopes=ALL_SCOPES, made_by=users.ops)
    old.roll(grace=timedelta(hours=1), made_by=users.admin)
    ticket = Client().post("/mcp/ticket", headers={"authorization": f"Bearer {plain}"}).json()["ticket"]
    peer = _socket(peers, {}, query=f"ticket={ticket}")

    said = confirmed(peer, MODERN, "delete_record", accept(), model=FLIGHT, ids=["4"])

    assert answer_of(said)["status"] == "pending"


def _socket(peers: Peers, headers: dict[str, str], query: str = "") -> Peer:
    peer: Any = peers(None)
    peer.capabilities = {"elicitation": {}}
    peer._connect = lambda: Socket(peer.loop, peer.application, headers, query=query)
    made: Peer = peer
    return made


def test_agreeing_by_a_token_whose_maker_is_deleted(mute: Peer, peers: Peers, users: Users, flights: Any) -> None:
    maker = make_staff("maker")
    _, token = AccessToken.objects.create_token(user=users.admin, scopes=ALL_SCOPES, made_by=maker)
    maker.delete()
    peer = peers(token)
    peer.capabilities = {"elicitation": {}}

    said = confirmed(peer, MODERN, "delete_record", accept(), model=FLIGHT, ids=["3"])

    assert answer_of(said)["status"] == "pending"


# The old revisions, in which nobody can be asked.


@pytest.mark.parametrize("revision", [one for one in REVISIONS if one not in ASKING])
def test_in_revisions_without_questions_the_change_waits(asker: Peer, flights: Any, revision: str) -> None:
    shown = call(asker, "delete_record", MODERN, None, model=FLIGHT, ids=["3"]).answer["result"]["structuredContent"]

    said = call(asker, "delete_record", revision, accept(), model=FLIGHT, ids=["3"], confirm=shown["confirm"])

    assert said.asked == []
    assert '"status":"pending"' in said.text.replace(" ", "")
    assert Change.objects.get().state == "waiting"


# Deletes of several rows.


def test_several_rows_are_one_question(asker: Peer, users: Users) -> None:
    codes = [f"{number:02}" for number in range(20)]
    Airline.objects.bulk_create(Airline(carrier=code, name="x") for code in codes)

    said = confirmed(asker, MODERN, "delete_record", accept(), model="flights.airline", ids=codes)

    [text] = questions(said)
    assert text.splitlines() == ["Delete 20 airlines:", *(f"- {code}, x" for code in codes)]
    assert Airline.objects.count() == 0


def test_a_question_names_no_rows_that_the_agent_cannot_see(asker: Peer, peers: Peers) -> None:
    staff = make_staff("clerk", "flights.view_airport", "flights.delete_airport", "flights.delete_weather")
    clerk = peers(token_of(staff, *ALL_SCOPES))
    clerk.capabilities = asker.capabilities
    Airport.objects.create(faa="ZZZ", name="Z", latitude=0, longitude=0, altitude=0, utc_offset=0)
    Airport.objects.get(faa="ZZZ").weather.create(time_hour="2013-01-01T10:00Z")

    said = confirmed(clerk, MODERN, "delete_record", accept(), model="flights.airport", ids=["ZZZ"])

    assert questions(said) == ["Delete 1 airport: ZZZ, Z, 0.0, 0.0\n\nDeleted with them:\n- 1 other record"]
