"""What an agent may not read, it may not write either, and it does not learn of it by trying."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib.admin import ModelAdmin, StackedInline
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db import models
from django.test.utils import isolate_apps

from mcp_django.bridge.declared import secrets
from mcp_django.test import MCPClient
from tests.bridge.writes.clicking import approve
from tests.bridge.writes.conftest import Writer, errors_of
from tests.bridge.writes.hiding import HIDDEN, PartForm, declare_hiding
from tests.shop.models import Keepsake, Locker, Part, Person, Product, Supplier, Tag, Visit, Warranty
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(declared: Declared) -> Person:
    """A person whose badge nobody may read."""
    declared.admin(Person, ModelAdmin)
    declared.model(Person, exclude=["badge"])
    return Person.objects.create(name="Ann", badge=HIDDEN)


# Fields that are hidden.


def test_a_hidden_field_is_refused_in_the_words_for_one_that_does_not_exist(root: Writer, ann: Person) -> None:
    def told(name: str) -> list[str]:
        values = {"name": "Bob", name: "x"}
        return [
            root.refused("update_record", model="shop.person", id=str(ann.pk), values=values).replace(name, "zzzzz"),
            root.refused("create_record", model="shop.person", values=values).replace(name, "zzzzz"),
        ]

    assert told("badge") == told("zzzzz")
    ann.refresh_from_db()
    assert (ann.name, ann.badge) == ("Ann", HIDDEN)
    assert Person.objects.count() == 1


def test_what_is_no_field_of_the_form_or_is_a_secret_does_not_exist(root: Writer) -> None:
    product = Product.objects.create(name="A", api_key=HIDDEN)
    names = ["api_key", "blob", "id", "pk", "book", "product_ptr", "__all__", "tags_id"]
    about = {"model": "shop.product", "id": str(product.pk)}

    told = {name: root.told("update_record", **about, values={name: "1"}) for name in names}

    # Suggestions for similar names are of other fields.
    assert [name for name in names if f"no field '{name}'." not in told[name]] == []
    product.refresh_from_db()
    assert product.api_key == HIDDEN


def test_what_the_page_holds_of_a_hidden_field_stays_and_is_in_no_answer(root: Writer, ann: Person) -> None:
    arguments = {"model": "shop.person", "id": str(ann.pk), "values": {"name": "Bob"}}

    new = root.ask("describe_form", model="shop.person")
    told = root.refused("create_record", model="shop.person", values={"name": "Bob"})
    answers = [
        root.ask("describe_form", model="shop.person", id=str(ann.pk)),
        shown := root.ask("update_record", **arguments),
        root.ask("update_record", **arguments, confirm=shown["confirm"]),
    ]

    ann.refresh_from_db()
    assert (ann.name, ann.badge) == ("Bob", HIDDEN)
    assert HIDDEN not in str(answers)
    assert answers[0]["fields"].keys() == {"name"}
    # For a new row it is required, and only a person can fill it in.
    assert new["notes"] == ["Only a person can fill in badge, in the admin."]
    assert errors_of(told) == [("values", "the form refuses it because of a field that only a person can fill in.")]


def test_a_caller_without_a_host_is_sent_to_the_pages_of_base_url(
    root: Writer, ann: Person, settings: Any, users: Users
) -> None:
    """As on stdio. ALLOWED_HOSTS is for what clients send."""
    settings.ALLOWED_HOSTS = ["example.com"]
    settings.MCP = {**settings.MCP, "BASE_URL": "https://inside.example"}
    with MCPClient(users.admin, ["read", "write"]) as agent:
        about = {"model": "shop.person", "ids": [str(ann.pk)]}
        confirm = agent.call("delete_record", **about).structured["confirm"]
        waiting = agent.call("delete_record", **about, confirm=confirm).structured

    assert waiting["url"].startswith("https://inside.example/admin/mcp_django/change/")


def test_what_saving_changes_in_a_hidden_field_is_not_told(root: Writer, declared: Declared, ann: Person) -> None:
    class Admin(ModelAdmin[Person]):
        def save_model(self, request: Any, obj: Person, form: Any, change: bool) -> None:
            obj.badge = f"{HIDDEN} 2"
            super().save_model(request, obj, form, change)

    declared.admin(Person, Admin)

    made = root.confirmed("update_record", model="shop.person", id=str(ann.pk), values={"name": "Bob"})

    ann.refresh_from_db()
    assert ann.badge == f"{HIDDEN} 2"
    assert "badge" not in str(made) and "also_changed" not in made


def test_the_error_of_a_hidden_field_is_not_told(root: Writer, declared: Declared, ann: Person) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        def clean_badge(self) -> str:
            raise forms.ValidationError(f"{self.cleaned_data['badge']} is old")

    declared.admin(Person, type("Admin", (ModelAdmin,), {"form": Form}))

    told = root.refused("update_record", model="shop.person", id=str(ann.pk), values={"name": "Bob"})

    assert HIDDEN not in told and "badge" not in told


def test_fields_of_the_form_alone_that_are_named_like_secrets_do_not_exist(root: Writer, declared: Declared) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        comment = forms.CharField(required=False)
        new_password = forms.CharField(required=False)
        api_token = forms.CharField(required=False, initial=HIDDEN)
        reset_code = forms.IntegerField(required=False)
        send_password = forms.BooleanField(required=False)
        token_until = forms.DateField(required=False)

    declared.admin(Person, type("Admin", (ModelAdmin,), {"form": Form}))
    ann = Person.objects.create(name="Ann", badge="1")

    described = root.ask("describe_form", model="shop.person", id=str(ann.pk))
    told = [
        root.refused("update_record", model="shop.person", id=str(ann.pk), values={name: "x"})
        for name in ("new_password", "api_token", "reset_code")
    ]

    assert described["fields"].keys() == {"name", "badge", "comment", "send_password", "token_until"}
    assert all("no field" in one for one in told) and HIDDEN not in str([described, told])


class DisabledForm(forms.ModelForm):  # type: ignore[type-arg]
    badge = forms.CharField(disabled=True)


class DisabledWidgetForm(forms.ModelForm):  # type: ignore[type-arg]
    badge = forms.CharField(widget=forms.TextInput({"disabled": True}))


@pytest.mark.every_case
@pytest.mark.parametrize(
    "options", [{"readonly_fields": ["badge"]}, {"form": DisabledForm}, {"form": DisabledWidgetForm}]
)
def test_a_field_that_is_only_shown_or_disabled_is_not_written(root: Writer, declared: Declared, options: Any) -> None:
    ann = Person.objects.create(name="Ann", badge="1")
    declared.admin(Person, type("Admin", (ModelAdmin,), options))

    told = root.refused("update_record", model="shop.person", id=str(ann.pk), values={"badge": "x"})

    assert "no field 'badge'" in told


def test_only_what_the_project_names_is_written(root: Writer, declared: Declared) -> None:
    ann = Person.objects.create(name="Ann", badge="1")
    declared.admin(Person, ModelAdmin)
    declared.model(Person, write_fields=["badge"])

    assert root.ask("describe_form", model="shop.person", id=str(ann.pk))["fields"].keys() == {"badge"}
    assert "no field 'name'" in root.refused(
        "update_record", model="shop.person", id=str(ann.pk), values={"name": "x", "badge": "2"}
    )


@pytest.mark.parametrize(("hook", "words"), [("get_write_fields", "no field 'name'"), ("get_writable", "no model")])
def test_a_hook_of_the_project_that_fails_opens_nothing(
    root: Writer, declared: Declared, hook: str, words: str
) -> None:
    declared.admin(Person, ModelAdmin)

    def fail(self: Any, request: Any) -> Any:
        raise RuntimeError(HIDDEN)

    declared.model(Person, **{hook: fail})

    told = root.refused("create_record", model="shop.person", values={"name": "x"})

    assert words in told and HIDDEN not in told


class PageAdmin(ModelAdmin):  # type: ignore[type-arg]
    """As the pages of django-cms: a row that is not saved has nothing that it could be asked for."""

    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["name", "word", "words"]})]
        assert not obj._state.adding, "it is asked with a row that is not there"
        return [(None, {"fields": ["name", "words"] if obj.name == "draft" else ["name"]})]

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.words = HIDDEN if obj.name == "news" else "by the admin"
        super().save_model(request, obj, form, change)


def test_the_form_of_a_new_row_is_asked_without_one_and_what_is_read_of_it_with_it(
    root: Writer, declared: Declared
) -> None:
    declared.admin(Keepsake, PageAdmin)
    described = root.ask("describe_form", model="shop.keepsake")
    values = {"word": "x", "words": "of the agent"}

    made = {
        name: root.confirmed("create_record", model="shop.keepsake", values={"name": name, **values})
        for name in ("draft", "news")
    }

    assert described["fields"].keys() == {"name", "word", "words"}
    found = {name: {one["field"]: one["after"] for one in answer["diff"]} for name, answer in made.items()}
    assert found == {
        "draft": {"name": "draft", "word": "x", "words": "by the admin"},
        "news": {"name": "news", "word": "x", "words": "of the agent"},
    }
    assert (made["draft"].get("also_changed"), HIDDEN in str(made)) == (["words"], False)


# What users may do.

RIGHTS: dict[str, Any] = {
    "is_superuser": True, "user_permissions": ["1"], "groups": ["1"], "is_staff": True, "is_active": True,
    "password": "x",
}  # fmt: skip


@pytest.fixture
def clerk(writer: Callable[..., Writer]) -> Writer:
    """The agent of somebody who may do anything with users, and is no superuser."""
    verbs = ("view", "add", "change", "delete")
    return writer(
        make_staff("clerk", *(f"auth.{verb}_{model}" for verb in verbs for model in ("user", "group", "permission")))
    )


def test_users_groups_and_permissions_are_not_written(root: Writer, declared: Declared) -> None:
    declared.admin(Permission, ModelAdmin)
    models = ["auth.user", "auth.group", "auth.permission"]
    named = {"values": {"name": "x"}}
    calls = {"create_record": named, "update_record": {"id": "1", **named}, "delete_record": {"ids": ["1"]}}

    told = {(model, tool): root.told(tool, model=model, **more) for model in models for tool, more in calls.items()}

    assert not {*models} & root.ask("describe_form")["models"].keys()
    assert [one for one, text in told.items() if f"rows '{one[0]}'" not in text] == []


def test_who_may_change_users_makes_nobody_mightier_by_an_agent(
    clerk: Writer, declared: Declared, users: Users
) -> None:
    declared.model(User, writable={"create", "update"})
    mine = User.objects.get(username="clerk")
    about = {"model": "auth.user", "id": str(mine.pk)}

    told = {name: clerk.told("update_record", **about, values={name: value}) for name, value in RIGHTS.items()}
    clerk.confirmed("update_record", **about, values={"first_name": "Ann"})

    closed = [name for name in RIGHTS if "says what users may do" in told[name] and "write_fields" in told[name]]
    assert closed == ["is_superuser", "groups", "is_staff", "is_active"]
    assert [name for name in RIGHTS if f"no field '{name}'" in told[name]] == ["user_permissions", "password"]
    now = User.objects.get(pk=mine.pk)
    assert (now.first_name, now.is_superuser, now.is_staff, now.is_active) == ("Ann", False, True, True)
    assert now.password == mine.password and now.groups.count() == 0
    assert now.user_permissions.count() == mine.user_permissions.count() == 12


def test_what_the_project_names_is_written_of_a_user_as_far_as_the_admin_shows_it(
    clerk: Writer, declared: Declared, users: Users, transactional_db: None
) -> None:
    class Careful(UserAdmin):  # type: ignore[type-arg]
        def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
            return () if request.user.is_superuser else ("is_superuser", "user_permissions")

    declared.admin(User, Careful)
    declared.model(User, writable={"update"}, write_fields=["is_staff", "is_superuser", "user_permissions"])
    bob = User.objects.create_user("bob")
    about = {"model": "auth.user", "id": str(bob.pk)}

    # What gives rights is approved by somebody else.
    waits = clerk.confirmed("update_record", **about, values={"is_staff": True})["change"]
    assert approve(users.admin, waits) == ["The change was made."]
    hidden = ("is_superuser", "user_permissions", "is_active")
    told = {name: clerk.told("update_record", **about, values={name: RIGHTS[name]}) for name in hidden}

    bob.refresh_from_db()
    assert (bob.is_staff, bob.is_superuser) == (True, False)
    assert [name for name in hidden if f"no field '{name}'" not in told[name]] == []


def test_the_permissions_of_a_group_are_not_written_though_the_group_is(clerk: Writer, declared: Declared) -> None:
    declared.model(Group, writable={"create", "update"})
    group = Group.objects.create(name="A")

    told = clerk.refused("update_record", model="auth.group", id=str(group.pk), values={"permissions": ["1"]})
    clerk.confirmed("update_record", model="auth.group", id=str(group.pk), values={"name": "B"})

    assert "no field 'permissions'" in told
    assert Group.objects.get(pk=group.pk).name == "B"


def test_groups_that_choose_for_whom_something_holds_are_written() -> None:
    """As those of a flag of waffle. They give nobody a permission."""
    with isolate_apps("tests.shop"):
        abstract = type("Meta", (), {"app_label": "shop", "abstract": True})
        meta = type("Meta", (), {"app_label": "shop"})
        flags = []
        for name in ("AbstractUserFlag", "OtherFlag"):
            made = {"__module__": "waffle.models", "Meta": abstract, "groups": models.ManyToManyField(Group)}
            base = type(name, (models.Model,), made)
            flags.append(type(f"Of{name}", (base,), {"__module__": __name__, "Meta": meta}))

    assert [secrets.gives_rights(flag._meta.get_field("groups")) for flag in flags] == [False, True]


def test_a_user_model_of_the_project_is_as_well_protected(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Person, ModelAdmin)
    monkeypatch.setattr(secrets, "get_user_model", lambda: Person)

    assert "shop.person" not in root.ask("describe_form")["models"]
    assert "rows 'shop.person'" in root.refused("create_record", model="shop.person", values={"name": "x"})


# Rows that a foreign key may point to.


@pytest.fixture
def suppliers(declared: Declared) -> dict[str, Supplier]:
    declare_hiding(declared)
    return {
        "seen": Supplier.objects.create(name="Ann", code="A"),
        "other": Supplier.objects.create(name="Bob", code="B"),
        "hidden": Supplier.objects.create(name=HIDDEN, code="H", open=False),
    }


def test_a_row_that_is_hidden_or_that_the_form_does_not_offer_is_refused(
    root: Writer, suppliers: dict[str, Supplier], declared: Declared
) -> None:
    def told(key: int) -> str:
        return root.refused("create_record", model="shop.part", values={"name": "bolt", "supplier": key})

    class Form(forms.ModelForm):  # type: ignore[type-arg]
        supplier = forms.ModelChoiceField(Supplier.objects.exclude(name="Bob"), required=False)

    hidden = suppliers["hidden"].pk
    of_hidden, of_none = told(hidden), told(999)
    declared.admin(Part, type("Admin", (ModelAdmin,), {"form": Form, "fields": ["name", "supplier"]}))
    described = root.ask("describe_form", model="shop.part")

    # As one that does not exist.
    assert of_hidden.replace(str(hidden), "999") == of_none and HIDDEN not in of_hidden
    assert described["fields"]["supplier"]["enum"] == [str(suppliers["seen"].pk)]
    [(place, words)] = errors_of(told(suppliers["other"].pk))
    assert place == "values.supplier" and words.startswith("Select a valid choice.")


@pytest.mark.every_database
def test_a_key_that_is_of_a_hidden_row_is_not_chosen_whether_its_model_is_exposed_or_not(
    root: Writer, declared: Declared
) -> None:
    shown = type("Shown", (ModelAdmin,), {"get_queryset": lambda self, request: Person.objects.exclude(badge=HIDDEN)})
    declared.admin(Locker, type("Admin", (ModelAdmin,), {"fields": ["owner", "number"]}))
    hidden = Person.objects.create(name=HIDDEN, badge=HIDDEN)

    def told(key: int) -> str:
        return root.refused("create_record", model="shop.locker", values={"owner": key, "number": 1})

    for admin_class in (shown, None):
        declared.admin(Person, admin_class)

        assert told(hidden.pk).replace(str(hidden.pk), "999") == told(999)
        assert HIDDEN not in json.dumps([told(hidden.pk), root.ask("describe_form", model="shop.locker")])
    assert not Locker.objects.exists()


def test_a_foreign_key_to_a_hidden_row_is_null_and_stays(root: Writer, suppliers: dict[str, Supplier]) -> None:
    part = Part.objects.create(name="bolt", supplier=suppliers["hidden"])
    arguments: dict[str, Any] = {"model": "shop.part", "id": str(part.pk)}

    made = root.confirmed("update_record", **arguments, values={"name": "nut"})
    shown = root.ask("update_record", **arguments, values={"supplier": suppliers["seen"].pk})

    part.refresh_from_db()
    assert part.supplier == suppliers["hidden"]
    assert [one["field"] for one in made["diff"]] == ["name"]
    assert [(one["before"], one["after"]) for one in shown["diff"]] == [(None, suppliers["seen"].pk)]


def test_a_foreign_key_to_a_model_that_may_not_be_read_does_not_exist(
    writer: Callable[..., Writer], suppliers: dict[str, Supplier]
) -> None:
    verbs = ("view", "add", "change")
    staff = writer(make_staff("staff", *(f"shop.{verb}_part" for verb in verbs)))

    described = staff.ask("describe_form", model="shop.part")
    told = staff.refused("create_record", model="shop.part", values={"name": "bolt", "supplier": suppliers["seen"].pk})

    assert described["fields"].keys() == {"name", "weight"}
    assert "no field 'supplier'" in told


def test_a_foreign_key_by_a_hidden_column_does_not_exist(root: Writer, declared: Declared, ann: Person) -> None:
    declared.admin(Visit, ModelAdmin)

    described = root.ask("describe_form", model="shop.visit")
    told = root.refused("create_record", model="shop.visit", values={"person": HIDDEN})

    assert described["fields"] == {} and HIDDEN not in str(described)
    assert "no field 'person'" in told


def test_hidden_rows_are_no_choices_of_fields_of_the_form_alone(
    root: Writer, suppliers: dict[str, Supplier], declared: Declared
) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        rival = forms.ModelChoiceField(Supplier.objects.all(), required=False)
        rivals = forms.ModelMultipleChoiceField(Supplier.objects.all(), required=False)

    declared.admin(Part, type("Admin", (ModelAdmin,), {"form": Form, "fields": ["name", "rival", "rivals"]}))
    hidden, seen = suppliers["hidden"].pk, [str(suppliers[name].pk) for name in ("seen", "other")]

    def told(key: int) -> list[str]:
        given = {"rival": str(key), "rivals": [str(key)]}
        return [root.refused("create_record", model="shop.part", values=dict([one])) for one in given.items()]

    described = root.ask("describe_form", model="shop.part")["fields"]

    assert described["rival"]["enum"] == described["rivals"]["items"]["enum"] == seen
    assert HIDDEN not in str(described)
    assert [one.replace(str(hidden), "999") for one in told(hidden)] == told(999)


# Rows that are linked.


@pytest.fixture
def part(suppliers: dict[str, Supplier]) -> Part:
    """With a tag that is seen and one that is not; there is another one of each."""
    tags = [Tag.objects.create(name=name) for name in ("red", f"{HIDDEN} 1", "blue", f"{HIDDEN} 2")]
    part = Part.objects.create(name="bolt", weight=1)
    part.tags.set(tags[:2])
    return part


def tags_of(part: Part) -> set[str]:
    return set(part.tags.values_list("pk", flat=True))


@pytest.mark.every_database
def test_links_to_hidden_rows_stay_and_are_in_no_answer(root: Writer, part: Part) -> None:
    cases: list[tuple[Any, set[str]]] = [
        (["blue"], {"blue"}), ([], set()), (None, set()), ({"add": ["blue"]}, {"red", "blue"}),
        ({"remove": ["red"]}, set()), ({"add": ["blue"], "remove": ["red"]}, {"blue"}),
    ]  # fmt: skip
    for given, expected in cases:
        part.tags.set(["red", f"{HIDDEN} 1"])

        made = root.confirmed("update_record", model="shop.part", id=str(part.pk), values={"tags": given})

        assert tags_of(part) == {*expected, f"{HIDDEN} 1"}, given
        assert [set(one["after"]) for one in made["diff"]] == [expected], given
        assert HIDDEN not in str(made), given


@pytest.mark.every_database
def test_a_hidden_row_is_neither_linked_nor_unlinked_and_whether_it_is_linked_is_not_told(
    root: Writer, part: Part
) -> None:
    def told(key: str) -> list[str]:
        given = [{"add": [key]}, {"remove": [key]}, ["red", key]]
        about = {"model": "shop.part", "id": str(part.pk)}
        return [root.refused("update_record", **about, values={"tags": one}).replace(key, "zzz") for one in given]

    missing = told("zzz")

    assert all("no shop.tag with the primary key zzz" in one for one in missing)
    assert told(f"{HIDDEN} 1") == told(f"{HIDDEN} 2") == missing
    assert tags_of(part) == {"red", f"{HIDDEN} 1"}


def test_a_hidden_link_that_changes_while_saving_is_in_no_answer(root: Writer, part: Part, declared: Declared) -> None:
    class Admin(ModelAdmin[Part]):
        form = PartForm
        fields = ["name", "tags"]

        def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
            super().save_related(request, form, formsets, change)
            form.instance.tags.add(f"{HIDDEN} 2")

    declared.admin(Part, Admin)

    made = root.confirmed("update_record", model="shop.part", id=str(part.pk), values={"name": "nut"})

    assert f"{HIDDEN} 2" in tags_of(part)
    assert [one["field"] for one in made["diff"]] == ["name"] and "also_changed" not in made


def test_a_secret_of_a_row_in_an_inline_does_not_exist(root: Writer, declared: Declared) -> None:
    inline = type("Inline", (StackedInline,), {"model": Warranty})
    declared.admin(Part, type("Admin", (ModelAdmin,), {"fields": ["name"], "inlines": [inline]}))
    part = Part.objects.create(name="bolt")
    Warranty.objects.create(part=part, months=1, pin="9876")
    key = str(part.warranty.pk)

    described = root.ask("describe_form", model="shop.part", id=str(part.pk))
    told = root.refused(
        "update_record", model="shop.part", id=str(part.pk), rows={"warranty": [{"pk": key, "pin": "1"}]}
    )
    made = root.confirmed(
        "update_record", model="shop.part", id=str(part.pk), rows={"warranty": [{"pk": key, "months": 2}]}
    )

    assert described["inlines"]["warranty"]["fields"].keys() == {"months"}
    assert "no field 'pin'" in told
    assert "9876" not in str([described, told, made])
    assert Warranty.objects.get().pin == "9876" and Warranty.objects.get().months == 2
