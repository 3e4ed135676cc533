"""Forms that are sent without a page before them: what would notice, and what is left out."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pytest
from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.files.base import ContentFile
from django.db import connection, transaction
from django.forms import BaseInlineFormSet
from django.http import Http404, QueryDict
from django.test.utils import CaptureQueriesContext

from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.late_data import Late, TooEarly
from mcp_django.bridge.writes.opening import GivenRow
from mcp_django.bridge.writes.sending import RowSender, SentRow
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.exceptions import ToolError
from tests.bridge.writes.lab import driving
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Article, Attachment, Ledger, Line, Meeting, Note, Order, Ticket
from tests.bridge.writes.lab.recording import Recording
from tests.support.asking import request_of

Admin: Any = admin.ModelAdmin


class LineInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Line
    fields = ("what", "count")


@pytest.fixture
def order(db: None) -> Order:
    made = Order.objects.create(name="first", total=1)
    made.lines.create(what="cup", count=1)
    return made


def send(lab: Lab, row: Any, values: dict[str, Any], *, writes: bool = True) -> SentRow:
    with transaction.atomic():
        return driving.send(lab.site, lab.user, row._meta.label_lower, str(row.pk), writes=writes, values=values)


# Code of the project that would notice.


class ReadsData(forms.ModelForm):  # type: ignore[type-arg]
    """Asks for a summary where the data say that the article is out, and knows it before it is validated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stands = self.data.get("status") if self.is_bound else getattr(self.instance, "status", "")
        self.fields["summary"].required = stands == "out"

    def clean(self) -> Any:
        self.instance.reviewer = ",".join(sorted(name for name in self.fields if name in self.data))
        return super().clean()


def test_a_form_that_reads_its_data_as_it_is_made_finds_all_of_them(lab: Lab) -> None:
    lab.admin(Article, form=ReadsData, fields=["name", "status", "summary"], readonly_fields=["reviewer"])
    draft = Article.objects.create(name="news", summary="short")
    bare = Article.objects.create(name="bare")

    made = lab.same(Article, draft, values={"status": "out"})
    refused = lab.refused(Article, bare, values={"status": "out"})

    assert lab.single == {True: 1}
    assert made.of(Article)[0]["reviewer"] == "name,status,summary"
    assert refused.fields == ["values.summary"]


def _by_post(self: Any, request: Any, obj: Any = None, **options: Any) -> Any:
    """A hook that asks for the data before the form is made."""
    if request.method == "POST" and request.POST.get("status") == "out":
        options["exclude"] = ["text"]
    return admin.ModelAdmin.get_form(self, request, obj, **options)


def _by_all(self: Any, request: Any, obj: Any = None) -> list[str]:
    return ["name", "status"] if len(list(request.POST)) > 2 else ["name", "status", "text"]


def _by_files(self: Any, request: Any, obj: Any = None) -> list[str]:
    return [] if request.FILES else ["reviewer"]


def _by_method(self: Any, request: Any) -> Any:
    return admin.ModelAdmin.get_queryset(self, request) if request.method else None


def _by_change(self: Any, request: Any, obj: Any = None) -> Any:
    request.POST = request.POST.copy()
    return admin.ModelAdmin.get_fieldsets(self, request, obj)


def _page(self: Any, request: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
    context["adminform"].form.fields["summary"].help_text = "In one line."
    return admin.ModelAdmin.render_change_form(self, request, context, *args, **kwargs)


NOTICING = {
    "reads a value": ("get_form", _by_post),
    "reads all": ("get_fields", _by_all),
    "reads the files": ("get_readonly_fields", _by_files),
    "asks for the method": ("get_queryset", _by_method),
    "makes a copy": ("get_fieldsets", _by_change),
    "changes the page": ("render_change_form", _page),
}


@pytest.mark.parametrize("what", NOTICING)
def test_of_code_that_would_notice_the_page_is_opened_first(lab: Lab, what: str) -> None:
    hook, written = NOTICING[what]
    lab.admin(Article, type("Noticing", (Admin,), {hook: written}))
    row = Article.objects.create(name="news", text="long", summary="short", reviewer="Ann")

    made = lab.same(Article, row, values={"status": "out"})

    assert lab.single == {False: 1}
    assert made.of(Article)[0]["status"] == "out"


def test_a_pass_that_was_given_up_leaves_nothing(lab: Lab) -> None:
    class Writing(Admin):
        def get_object(self, request: Any, object_id: Any, from_field: Any = None) -> Any:
            Ledger.objects.create(name=vars(request)["method"])
            if request.method == "POST":
                Ledger.objects.create(name=request.POST["name"])
            return super().get_object(request, object_id, from_field)

    lab.admin(Order, Writing)

    send(lab, Order.objects.create(name="first"), {"name": "second"})

    assert [ledger.name for ledger in Ledger.objects.order_by("pk")] == ["GET", "POST", "second"]


def test_one_row_leaves_nothing_behind_for_the_next(lab: Lab) -> None:
    class Remembering(Admin):
        fields = ["name", "amount"]
        last: Any = None

        def get_object(self, request: Any, object_id: Any, from_field: Any = None) -> Any:
            self.before, self.last = self.last, super().get_object(request, object_id, from_field)
            return self.last

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            obj.closed = self.before is not None
            super().save_model(request, obj, form, change)

    lab.admin(Ledger, Remembering)
    rows = [Ledger.objects.create(name=name) for name in ("May", "June")]
    request = request_of(lab.user, "read", "write")
    rights = Rights(lab.site, request, from_primary=True).of_model(Ledger)
    assert rights is not None
    sender = RowSender(rights, leaves_out=True)

    with transaction.atomic():
        for row in rows:
            sender.send(GivenRow(rights, row.pk, {"amount": "2.00"}), ViewRun(writes=True))

    assert list(Ledger.objects.values_list("amount", "closed")) == [(2, False), (2, False)]


def test_what_widgets_lose_is_kept(lab: Lab) -> None:
    lab.admin(Meeting, fields=["name", "begins", "room", "tags"])
    begins = datetime.datetime(2013, 10, 27, 1, 30, 0, 123, tzinfo=datetime.UTC)
    row = Meeting.objects.create(name="old", begins=begins, room=" one - two ", tags="a\tb ")

    send(lab, row, {"name": "new"})

    row.refresh_from_db()
    assert (row.name, row.begins, row.room, row.tags) == ("new", begins, " one - two ", "a\tb ")


# What a pass tells.


def test_a_preview_writes_nothing_and_tells_the_states(lab: Lab, order: Order) -> None:
    lab.admin(Order, fields=["name", "total"])
    before = lab.everything()

    sent = send(lab, order, {"total": 5}, writes=False)

    assert lab.everything() == before
    assert sent.before is not None
    assert [state.values["total"] for state in (sent.before, sent.planned, sent.after())] == [1, 5, 1]


def test_the_state_after_is_read_anew_where_the_admin_shows_the_row_still(lab: Lab, order: Order) -> None:
    class Later(Admin):
        fields = ["name", "total"]

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(total=99)

        def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
            super().save_related(request, form, formsets, change)
            Order.objects.filter(pk=form.instance.pk, total=98).update(total=99, changed_by="a secret")
            Order.objects.filter(pk=form.instance.pk, total=5).update(changed_by="a trigger")

    lab.admin(Order, Later)

    shown = send(lab, order, {"total": 5}).after()
    hidden = send(lab, order, {"total": 98}).after()

    assert shown.values["changed_by"] == "a trigger"
    assert (hidden.values["total"], hidden.values["changed_by"]) == (98, "a trigger")


def test_what_the_project_does_to_a_value_in_place_leaves_the_state_before(lab: Lab) -> None:
    class Discarding(Admin):
        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            obj.scan.delete(save=False)
            super().save_model(request, obj, form, change)

    lab.admin(Attachment, Discarding)
    row = Attachment.objects.create(name="old", paper=ContentFile(b"a", "a.txt"), scan=ContentFile(b"b", "b.txt"))
    name = row.scan.name

    sent = send(lab, row, {"name": "new"})

    assert sent.before is not None
    assert (sent.before.values["scan"].name, sent.after().values["scan"].name) == (name, "")


@pytest.mark.parametrize("error", [PermissionDenied, Http404])
def test_a_row_that_the_admin_refuses_to_show_once_it_is_changed_is_changed(
    lab: Lab, order: Order, error: type[Exception]
) -> None:
    class Closing(Admin):
        fields = ["name", "total"]

        def get_object(self, request: Any, object_id: Any, from_field: Any = None) -> Any:
            found = super().get_object(request, object_id, from_field)
            if found is not None and found.total == 5:
                raise error
            return found

    lab.admin(Order, Closing)

    made = lab.same(Order, order, values={"total": 5})

    assert made.of(Order)[0]["total"] == 5


def test_whoever_is_asked_before_validation_may_end_it(lab: Lab, order: Order) -> None:
    validated: list[str] = []

    class Telling(forms.ModelForm):  # type: ignore[type-arg]
        def clean(self) -> Any:
            validated.append("told")
            return super().clean()

    lab.admin(Order, form=Telling, fields=["name", "total"])
    rights = Rights(lab.site, request_of(lab.user, "read", "write"), from_primary=True).of_model(Order)
    assert rights is not None

    def refuse(opened: Any) -> None:
        raise ToolError(f"{opened.given.main.values} {opened.before.values['total']}")

    with pytest.raises(ToolError, match=r"\{'total': 5\} 1"):
        RowSender(rights, leaves_out=True).send(GivenRow(rights, order.pk, {"total": 5}), ViewRun(writes=True), refuse)
    assert validated == []
    assert Order.objects.get().total == 1


class Validating(forms.ModelForm):  # type: ignore[type-arg]
    """Tells what was validated."""

    validated: ClassVar[list[str]] = []

    def clean(self) -> Any:
        Validating.validated.append(self.cleaned_data["code"])
        return super().clean()


def test_a_preview_opens_no_page(lab: Lab, order: Order) -> None:
    lab.admin(Order, fields=["name", "total"], inlines=[LineInline])
    [cup] = order.lines.all()
    given: dict[str, Any] = {"values": {"total": 5}, "rows": {"lines": [{"pk": cup.pk, "count": 2}]}}

    with Recording(()) as recorded:
        shown = driving.preview(lab.site, lab.user, "update", model="lab.order", id=str(order.pk), **given)

    assert [view.method for view in recorded.views] == ["POST"]
    assert shown["diff"] == [{"field": "total", "before": 1, "after": 5}]
    assert shown["rows"][0]["diff"] == [{"field": "count", "before": 1, "after": 2}]


def test_guesses_are_counted_though_the_pass_is_rolled_back_and_beyond_the_budget_none_is_validated(
    lab: Lab, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.exchange.rates.now", lambda: 1_800_000_000)
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"unique": "2/day"}}}

    class Seeing(Admin):
        form = Validating
        fields = ["code", "row", "seat"]

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(code="hidden")

    lab.admin(Ticket, Seeing)
    Validating.validated = []
    guess = partial(driving.preview, lab.site, lab.user, "create", model="lab.ticket")

    guess(values={"code": "free", "row": 1, "seat": 1})
    with pytest.raises(AssertionError, match="THROTTLED"):
        guess(values={"code": "hidden", "row": 2, "seat": 2})

    assert Validating.validated == ["free"]


# Formsets.


class OwnFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    pass


class OwnForm(forms.ModelForm):  # type: ignore[type-arg]
    pass


def _save_related(self: Any, request: Any, form: Any, formsets: Any, change: bool) -> None:
    admin.ModelAdmin.save_related(self, request, form, formsets, change)


def _get_formset(self: Any, request: Any, obj: Any = None, **options: Any) -> Any:
    return admin.TabularInline.get_formset(self, request, obj, **options)


FORMSETS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "all are those of Django": ({}, {}, False),
    "rows are asked for": ({}, {"min_num": 1}, True),
    "a class of the project": ({}, {"formset": OwnFormSet}, True),
    "a form of the project": ({}, {"form": OwnForm}, True),
    "a formset that the project makes": ({}, {"get_formset": _get_formset}, True),
    "a hook that saves them": ({"save_related": _save_related}, {}, True),
}  # fmt: skip


@pytest.mark.parametrize("what", FORMSETS)
def test_formsets_are_left_out_where_nothing_of_the_project_would_notice(lab: Lab, order: Order, what: str) -> None:
    of_admin, of_inline, is_made = FORMSETS[what]
    inline = type("OwnInline", (LineInline,), of_inline)
    lab.admin(Order, type("OwnAdmin", (Admin,), {**of_admin, "fields": ["name"], "inlines": [inline]}))

    with CaptureQueriesContext(connection) as captured:
        sent = send(lab, order, {"name": "second"})
    asked = [one["sql"] for one in captured if "lab_line" in one["sql"]]
    lab.same(Order, order, values={"name": "third"})

    assert bool(sent.sent.run.formsets) is is_made
    assert bool(asked) is is_made
    assert lab.single == {True: 1}


def test_a_row_of_an_inline_that_is_named_is_changed(lab: Lab, order: Order) -> None:
    lab.admin(
        Order, fields=["name"], inlines=[LineInline, type("Notes", (LineInline,), {"model": Note, "fields": None})]
    )
    [cup] = order.lines.all()

    lab.same(
        Order,
        order,
        rows={"lines": [{"pk": cup.pk, "count": 3}], "notes": [{"text": "fragile"}]},
        typed={"lines-0-count": "3", "notes-0-text": "fragile"},
    )
    refused = lab.refused(
        Order, order, values={"name": "x" * 99, "total": 3}, rows={"lines": [{"count": "many"}], "parts": []}
    )

    assert lab.single == {True: 1}
    assert sorted(refused.fields) == ["rows.lines.0.count", "rows.parts", "values.total"]


# The data.


def written(**values: str) -> FormData:
    data = FormData()
    for name, value in values.items():
        data.add(name.replace("__", "-"), value)
    return data


#: Ways to read the data, and whether each waits for the form of the page, or for all formsets too.
READING: dict[str, tuple[Callable[[Any], object], bool]] = {
    "a name": (lambda post: post["name"], False),
    "a name, or nothing": (lambda post: post.get("name"), False),
    "all of a name": (lambda post: post.getlist("name"), False),
    "whether a name is there": (lambda post: "name" in post, False),
    "whether anything is there": (bool, False),
    "a row": (lambda post: post.get("lines-0-what"), True),
    "how many": (len, True),
    "the names": (list, True),
    "as a dictionary": (dict, True),
    "in a dictionary": (lambda post: {**post}, True),
    "as text": (lambda post: post.urlencode(), True),
    "whether two are the same": (lambda post: post == {}, True),
    "a value that is set": (lambda post: post.__setitem__("name", "other"), True),
    "values that are added": (lambda post: post.update(name="other"), True),
}  # fmt: skip


@pytest.mark.parametrize("what", READING)
def test_data_that_are_read_before_they_are_there_end_the_pass(what: str) -> None:
    read, waits_for_rows = READING[what]
    late = Late()
    late.give_to(request_of(None))

    with pytest.raises(TooEarly):
        read(late.post)
    late.write(written(name="first"))
    if waits_for_rows:
        with pytest.raises(TooEarly):
            read(late.post)
    else:
        read(late.post)


def test_data_that_are_whole_are_those_of_a_request() -> None:
    late, request = Late(), request_of(None)
    kind = type(request)
    late.give_to(request)
    late.write(written(name="first"))
    copy = late.post.copy()
    late.write(written(lines__0__what="cup"), "lines")
    late.end()

    assert [type(one) for one in (request, request.POST, copy)] == [kind, QueryDict, QueryDict]
    assert request.POST.dict() == copy.dict() == {"name": "first", "lines-0-what": "cup"}
    assert request.FILES.dict() == {}
    with pytest.raises(AttributeError, match="immutable"):
        request.POST["name"] = "second"
    copy["name"] = "second"
