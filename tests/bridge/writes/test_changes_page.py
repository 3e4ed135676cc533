"""The pages of changes in the admin: whoever may look at a change learns no values, and nobody decides for another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from demo_project.flights.models import Airline, Flight
from mcp_django.bridge.changes import summaries
from mcp_django.console.changes.change_words import time_left
from mcp_django.models import Change
from tests.bridge.writes.clicking import Browser, said, state_of
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.hiding import HIDDEN
from tests.shop.models import Tag
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db")

LIST = "/admin/mcp_django/change/"
SCRIPT = "<script>alert('x')</script>"


@pytest.fixture(autouse=True)
def asked_for_each_update(flights: list[Flight], declared: Declared) -> None:
    for model in (Flight, Airline):
        declared.model(model, consent={"update": "ask"})


@pytest.fixture
def viewer_of_all(users: Users) -> Browser:
    """Somebody who may view the changes of all users."""
    return Browser(make_staff("auditor", "mcp_django.view_change"))


@pytest.fixture
def own(root: Writer, users: Users) -> Browser:
    """The browser of the user whose agent proposes changes."""
    return Browser(users.admin)


def waiting(writer: Writer, notes: str = HIDDEN, key: str = "1", **more: Any) -> str:
    """The number of a change that waits."""
    arguments: dict[str, Any] = {"model": "flights.flight", "id": key, "values": {"notes": notes}}
    found = writer.ask(
        "update_record", **arguments, confirm=writer.ask("update_record", **arguments)["confirm"], **more
    )
    assert found["status"] == "pending", found
    return str(found["change"])


def text_of(response: Any) -> str:
    assert response.status_code == 200, response
    return str(response.content.decode())


# Who sees what.


@pytest.mark.parametrize("state", ["waiting", "applied"])
def test_whoever_may_view_all_changes_sees_no_values(
    root: Writer, own: Browser, viewer_of_all: Browser, state: str
) -> None:
    key = waiting(root)
    if state == "applied":
        own.apply(key)

    page, listed = text_of(viewer_of_all.page(key)), text_of(viewer_of_all.client.get(LIST))

    assert state_of(key) == state
    assert key in page and key in listed
    assert HIDDEN not in page + listed and "note 0" not in page + listed
    assert HIDDEN in text_of(own.page(key))


def test_reading_whose_the_changed_rows_of_others_are_by_their_keys(
    root: Writer, own: Browser, viewer_of_all: Browser, declared: Declared
) -> None:
    declared.admin(Tag, ModelAdmin)
    tag = Tag.objects.create(name="ada@example.com")
    viewer_of_all.client.force_login(make_staff("clerk", "mcp_django.view_change", "shop.view_tag"))
    deleting = {"model": "shop.tag", "ids": [tag.pk]}
    key = root.ask("delete_record", **deleting, confirm=root.ask("delete_record", **deleting)["confirm"])["change"]
    note = f"{tag.pk} was not deleted."

    seen = {}
    for state in ("waiting", "rejected"):
        Change.objects.filter(pk=key).update(state=state, note=note if state == "rejected" else "")
        for browser, who in ((own, "own"), (viewer_of_all, "other")):
            shown = browser.page(key), browser.client.get(LIST), browser.client.get(LIST, {"q": tag.pk})
            seen[who, state] = ["ada@" in text_of(one).replace('value="ada@', "") for one in shown]

    assert seen["own", "waiting"][:2] == seen["own", "rejected"][:2] == [True, True]
    assert seen["other", "waiting"] == seen["other", "rejected"] == [False, False, False]
    assert "delete shop.tag *" in text_of(viewer_of_all.client.get(LIST)).lower()


def test_the_numbers_of_the_changed_rows_of_others_are_shown(root: Writer, viewer_of_all: Browser) -> None:
    key = waiting(root)

    assert "flights.flight 1<" in text_of(viewer_of_all.client.get(LIST))
    assert ">1</div>" in text_of(viewer_of_all.page(key))


def test_an_agent_without_a_name_whose_token_is_named_like_the_console(root: Writer, viewer_of_all: Browser) -> None:
    waiting(root)
    Change.objects.update(client_name="", token_name="console of admin")

    assert "calls itself console of admin" in text_of(viewer_of_all.client.get(LIST))


def test_what_a_change_or_a_user_holds_is_not_found_out_by_lookups_in_the_url(
    root: Writer, viewer_of_all: Browser
) -> None:
    waiting(root)
    names = ["arguments", "result", "origin", "scopes", "confirmed_by", "arguments_digest", "run"]
    lookups = [f"{name}__{lookup}" for name in names for lookup in ("contains", "startswith", "regex", "gt")]
    lookups += ["user__password__startswith", "user__email__contains", "user_id"]

    statuses = {lookup: viewer_of_all.client.get(LIST, {lookup: "1"}).status_code for lookup in lookups}

    assert statuses == dict.fromkeys(lookups, 400)


def test_the_filters_of_the_list_find_changes_and_no_values(root: Writer, viewer_of_all: Browser) -> None:
    key = waiting(root)
    filters = {
        "state__exact": "waiting", "operation__exact": "update", "created_at__gte": "2013-01-01 00:00+00:00",
        "model": "flights.flight", "user_name": "admin", "client_name": "", "q": "admin",
    }  # fmt: skip

    found = [name for name, value in filters.items() if key in text_of(viewer_of_all.client.get(LIST, {name: value}))]

    assert found == list(filters)
    assert key not in text_of(viewer_of_all.client.get(LIST, {"q": HIDDEN}))


def test_somebody_else_finds_neither_the_change_nor_its_page(root: Writer, users: Users) -> None:
    key = waiting(root)
    other = Browser(users.ops)

    assert key not in text_of(other.client.get(LIST))
    assert other.page(key).status_code == 302
    assert [other.decide(key, decision, digest="0" * 32).status_code for decision in ("apply", "reject")] == [404, 404]
    assert state_of(key) == "waiting"


def test_a_change_whose_user_is_gone_is_decided_by_nobody(
    writer: Callable[..., Writer], users: Users, viewer_of_all: Browser
) -> None:
    staff = make_staff("staff", "flights.view_flight", "flights.change_flight", "flights.view_airport")
    key = waiting(writer(staff))
    User.objects.filter(pk=staff.pk).delete()

    page = text_of(viewer_of_all.page(key))

    assert "staff" in page and HIDDEN not in page and 'name="_apply"' not in page
    for browser in (viewer_of_all, Browser(users.admin)):
        assert browser.decide(key, "apply").status_code == browser.decide(key, "reject").status_code == 403
    assert state_of(key) == "waiting"


# Who decides.


def test_without_the_admin_nothing_is_decided(root: Writer, users: Users) -> None:
    key, client = waiting(root), Browser(users.admin).client

    def answers(client: Client) -> list[Any]:
        posted = [{decision: "1", "digest": "0" * 32} for decision in ("_apply", "_reject")]
        return [client.post(f"{LIST}{key}/decide/", one) for one in posted]

    told = answers(Client())
    for is_staff, is_active in ((False, True), (True, False)):
        User.objects.filter(pk=users.admin.pk).update(is_staff=is_staff, is_active=is_active)
        told += answers(client)

    assert [one.status_code for one in told] == [302] * 6
    assert all("/login/" in one["Location"] for one in told)
    assert state_of(key) == "waiting"
    assert Flight.objects.get(pk=1).notes == "note 0"


def test_no_other_method_decides(root: Writer, own: Browser) -> None:
    key = waiting(root)
    url = f"{LIST}{key}/decide/?_apply=1&digest={own.digest(key)}"
    methods = ["get", "head", "put", "patch", "delete", "options"]

    assert {name: getattr(own.client, name)(url).status_code for name in methods} == dict.fromkeys(methods, 405)
    assert state_of(key) == "waiting"


def test_a_page_of_the_web_elsewhere_decides_nothing(root: Writer, own: Browser, users: Users) -> None:
    key = waiting(root)
    client = Client(enforce_csrf_checks=True, headers={"Origin": "https://evil.example"})
    client.force_login(users.admin)

    posted = [{decision: "1", "digest": own.digest(key)} for decision in ("_apply", "_reject")]
    statuses = [client.post(f"{LIST}{key}/decide/", one).status_code for one in posted]

    assert statuses == [403, 403]
    assert state_of(key) == "waiting"


def test_no_other_page_shows_the_change_in_a_frame(root: Writer, own: Browser) -> None:
    assert own.page(waiting(root))["X-Frame-Options"] == "DENY"


def test_a_click_with_the_digest_of_another_change_or_none_makes_nothing(root: Writer, own: Browser) -> None:
    one, other = waiting(root, key="1"), waiting(root, key="4")

    told = [said(own.decide(other, "apply", digest=digest)) for digest in (own.digest(one), "", "0" * 32)]

    assert told == [["The records have changed since you opened this page. Look at the change again."]] * 3
    assert [state_of(one), state_of(other)] == ["waiting", "waiting"]
    assert Flight.objects.get(pk=4).notes == "note 3"


def test_a_second_click_makes_nothing(root: Writer, own: Browser) -> None:
    key = waiting(root)
    digest = own.digest(key)
    own.decide(key, "apply", digest=digest)
    Flight.objects.filter(pk=1).update(notes="since then")

    told = [said(own.decide(key, decision, digest=digest)) for decision in ("apply", "reject")]

    assert told == [["This change does not wait any more."]] * 2
    assert Flight.objects.get(pk=1).notes == "since then" and state_of(key) == "applied"


def test_nobody_writes_a_change_by_the_pages_of_the_admin(root: Writer, own: Browser) -> None:
    key = waiting(root)
    posted = {
        "state": "applied", "arguments": "{}", "user": "1", "action": "delete_selected", "_selected_action": key,
        "post": "yes", "_save": "Save",
    }  # fmt: skip
    before = Change.objects.values().get()

    for page in ("", "add/", f"{key}/delete/", f"{key}/change/"):
        response = own.client.post(f"{LIST}{page}", posted)

        assert response.status_code in (302, 403) or (page == "" and response.status_code == 200), page
        assert Change.objects.values().get() == before, page


# What is shown.


def test_markup_in_values_reasons_and_names_is_text(root: Writer, own: Browser) -> None:
    Flight.objects.filter(pk=1).update(notes=f"{SCRIPT} before")
    key = waiting(root, notes=f"{SCRIPT} after", reason=SCRIPT)
    Change.objects.update(client_name=SCRIPT, token_name=SCRIPT, user_name=SCRIPT)

    texts = [text_of(own.page(key)), text_of(own.client.get(LIST))]
    assert (state_of(key), Flight.objects.get(pk=1).notes) == ("waiting", f"{SCRIPT} before")
    own.apply(key)
    texts += [text_of(own.page(key)), text_of(own.client.get(LIST))]

    assert state_of(key) == "applied"
    assert all(SCRIPT not in text and "&lt;script&gt;" in text for text in texts)
    assert "&#x27;)&lt;/script&gt; before" in texts[0] and "&#x27;)&lt;/script&gt; after" in texts[0]


def test_markup_in_a_key_is_text(root: Writer, own: Browser, declared: Declared) -> None:
    declared.admin(Tag, ModelAdmin)
    Tag.objects.create(name=SCRIPT)
    token = root.ask("delete_record", model="shop.tag", ids=[SCRIPT])["confirm"]
    key = root.ask("delete_record", model="shop.tag", ids=[SCRIPT], confirm=token)["change"]

    texts = [text_of(own.page(key)), text_of(own.client.get(LIST))]

    assert all(SCRIPT not in text and "&lt;script&gt;" in text for text in texts)


def test_a_reason_to_reject_is_text_for_people_and_for_the_agent_as_it_was_typed_and_cut(
    root: Writer, own: Browser
) -> None:
    key = waiting(root)

    own.reject(key, SCRIPT + "x" * 100_000)

    assert SCRIPT not in text_of(own.page(key))
    assert root.ask("get_change", change=key)["notes"] == [(SCRIPT + "x" * 500)[:500]]


def test_why_a_change_cannot_be_made_any_more_is_text_without_what_is_hidden(
    root: Writer, own: Browser, declared: Declared
) -> None:
    key = waiting(root)
    digest = own.digest(key)
    Flight.objects.filter(pk=1).update(status=SCRIPT[:10])

    page = text_of(own.page(key))
    told = said(own.decide(key, "apply", digest=digest))

    assert "The form of the admin does not accept this." in page and "<script>" not in page.split("errornote")[1][:500]
    assert told == ["The records have changed since you opened this page. Look at the change again."]
    assert state_of(key) == "waiting" and Flight.objects.get(pk=1).notes == "note 0"


def test_a_value_in_why_a_change_failed_is_not_shown_to_whoever_may_view_all(
    root: Writer, own: Browser, viewer_of_all: Browser, declared: Declared
) -> None:
    class Editor(ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes"]

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            raise ValidationError({"notes": f"{obj.notes} is not liked"})

    declared.admin(Flight, Editor)
    key = waiting(root)
    own.apply(key)

    assert HIDDEN not in text_of(viewer_of_all.page(key))


def test_what_the_page_was_shown_as_tells_nothing_of_hidden_values(root: Writer, own: Browser, settings: Any) -> None:
    """Without a key, the hidden value of a column could be tried until the digest fits."""
    key = waiting(root)
    before = own.digest(key)

    settings.SECRET_KEY = "another key of the project, as long as it must be"
    own.client.force_login(root.user)

    assert own.digest(key) != before


def test_a_post_that_says_neither_decides_nothing(root: Writer, own: Browser) -> None:
    key = waiting(root)

    response = own.client.post(reverse("admin:mcp_django_change_decide", args=[key]), {"digest": own.digest(key)})

    assert response.status_code == 400
    assert state_of(key) == "waiting"


def test_people_whose_agents_have_written_nothing_are_not_shown_the_list(root: Writer, users: Users) -> None:
    clerk = Browser(make_staff("clerk", "flights.view_flight"))
    before = text_of(clerk.client.get("/admin/"))
    waiting(Writer(users.ops))

    assert LIST not in before
    assert LIST in text_of(Browser(users.ops).client.get("/admin/"))


# What it says.


def test_the_page_names_records_and_values_and_keeps_the_names(root: Writer, own: Browser, declared: Declared) -> None:
    declared.admin(Flight, type("A", (ModelAdmin,), {"fields": ["notes", "carrier"], "list_display": ["carrier"]}))
    arguments: dict[str, Any] = {"model": "flights.flight", "id": "1", "values": {"carrier": "AA"}}
    confirm = root.ask("update_record", **arguments)["confirm"]
    key = str(root.ask("update_record", **arguments, confirm=confirm)["change"])

    page = text_of(own.page(key))
    assert "UA (United)" in page and "AA (American)" in page
    # For whoever may open the record, as the admin calls it.
    assert f"1 ({Flight.objects.get(pk=1)})" in page
    kept = summaries.read(Change.objects.get(pk=key).summary)
    assert [(one.key, one.column, one.after) for one in kept] == [("1", "carrier", "AA (American)")]

    own.apply(key)
    kept = summaries.read(Change.objects.get(pk=key).summary)
    assert [(one.change, one.key, one.name, one.column, one.after) for one in kept] == [
        ("update", "1", "UA (United)", "", "")
    ]


@pytest.mark.parametrize("end", ["reject", "expire"])
def test_of_a_change_that_is_not_made_no_value_is_kept(root: Writer, own: Browser, end: str) -> None:
    key = waiting(root)
    assert HIDDEN in Change.objects.get(pk=key).summary

    if end == "reject":
        own.reject(key)
    else:
        Change.objects.filter(pk=key).update(expires_at=timezone.now())
        waiting(root, key="2")

    change = Change.objects.get(pk=key)
    assert HIDDEN not in change.summary and summaries.read(change.summary)[0].key == "1"


def test_a_page_of_a_deletion_names_each_row_and_only_to_those_who_may_know(
    root: Writer, own: Browser, viewer_of_all: Browser
) -> None:
    arguments: dict[str, Any] = {"model": "flights.flight", "ids": ["3", "4"]}
    confirm = root.ask("delete_record", **arguments)["confirm"]
    key = str(root.ask("delete_record", **arguments, confirm=confirm)["change"])

    page, other = text_of(own.page(key)), text_of(viewer_of_all.page(key))

    assert "3, 2013-01-01T07:00:00-05:00, UA (United), 1002" in page and "4, " in page
    assert "United" not in other


def test_writing_in_the_other_direction_on_the_page_of_a_person(root: Writer, own: Browser) -> None:
    odd = "\u202e\u2066\u200b\u2028fog\x07\u3164"
    key = waiting(root, notes=odd, reason=odd)
    Change.objects.update(client_name=odd, user_name=odd)

    page, listed = text_of(own.page(key)), text_of(own.client.get(LIST))

    for char in odd.replace("fog", ""):
        assert char not in page + listed
    assert "\\u202e\\u2066\\u200b\\u2028fog\\x07" in page and "\\u202e" in listed


@pytest.mark.parametrize("way", ["hijack", "impersonate", "su"])
def test_agreeing_as_the_user_whom_one_impersonates(root: Writer, own: Browser, users: Users, way: str) -> None:
    key = waiting(root)
    digest = own.digest(key)
    behind = {
        "hijack": {"hijack_history": [str(users.ops.pk)]}, "su": {"exit_users_pk": [(users.ops.pk, "backend")]},
        "impersonate": {"_real": users.ops.pk},
    }  # fmt: skip

    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tests.bridge.writes.clicking.impersonating"]):
        browser = Browser(users.admin)
        session = browser.client.session
        session.update(behind[way])
        session.save()
        told = said(browser.decide(key, "apply", digest=digest))

    assert told == ["You act as another user, who must agree. Log in as yourself to agree to your own changes."]
    assert state_of(key) == "waiting"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 minutes left"), (80, "1 minute left"), (3_599, "60 minutes left"), (3_600, "1 hour left"),
     (86_399, "24 hours left"), (86_400, "1 day left"), (3 * 86_400 - 5, "3 days left")],
)  # fmt: skip
def test_how_long_a_change_waits_yet(seconds: int, said: str) -> None:
    change = Change(expires_at=timezone.now() + timedelta(seconds=seconds, milliseconds=500))

    assert time_left(change) == said
