"""Models in inlines of others, and what they must not show: rows of hidden parents, restricted rows, hidden fields."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.contrib.contenttypes.admin import GenericTabularInline
from django.contrib.contenttypes.models import ContentType
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest

from mcp_django import MCPSite, ModelMCP, site
from mcp_django.console.review import inventory
from mcp_django.models import AccessToken
from tests.shop.models import Making, Part, Product, Remark, Supplier, Tag, Warranty
from tests.support.asking import DirectPeer, columns, described, errors_of, keys, text_of
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

Admin: Any = admin.ModelAdmin
Inline: Any = admin.TabularInline
Generic: Any = GenericTabularInline


class MakingInline(Inline):
    model = Making
    exclude = ["open"]


class RemarkInline(Generic):
    model = Remark
    ct_field = "kind"
    ct_fk_field = "key"


class PartAdmin(Admin):
    """Shows no row whose name begins with "secret"."""

    list_display = ["name"]
    exclude = ["tags"]
    inlines = [MakingInline]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).exclude(name__startswith="secret")


@pytest.fixture
def parts(db: None) -> dict[str, Part]:
    made = {name: Part.objects.create(name=name) for name in ("bolt", "nut", "secret")}
    maker = Supplier.objects.create(name="Acme")
    for part in made.values():
        Making.objects.create(part=part, maker=maker)
    return made


@pytest.fixture
def root(parts: dict[str, Part]) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


def with_inline(declared: Declared, inline: Any, **options: Any) -> None:
    declared.admin(Part, type("WithInline", (PartAdmin,), {"inlines": [inline], **options}))


def is_hidden(peer: DirectPeer) -> bool:
    """Whether the makings are no model, and no relation of a part."""
    alone = peer.call("find_records", model="shop.making")["isError"]
    related = peer.call("find_records", model="shop.part", filter={"makings__isnull": False})["isError"]
    assert alone or not related
    return bool(alone and related)


# A model of its own, and a relation of its parent.


def test_a_model_in_one_inline_is_a_model_and_a_relation_of_its_parent(
    root: DirectPeer, declared: Declared, parts: dict[str, Part]
) -> None:
    declared.admin(Part, PartAdmin)

    assert columns(root, "shop.making") == ["id", "part"]
    assert described(root, "shop.part")["relations"] == {"makings": "shop.making"}
    assert keys(root, "shop.part", filter={"makings__count": 1}) == [parts["bolt"].pk, parts["nut"].pk]
    assert root.call("aggregate_records", model="shop.making")["structuredContent"]["rows"] == [[2]]
    assert "shop.making" in root.call("describe_models")["structuredContent"]["models"]
    assert root.read(f"db://shop/making/{parts['bolt'].makings.get().pk}")["part"] == parts["bolt"].pk
    assert inventory.build(site)["models"]["shop.making"]["declared_by"] == "MakingInline"


def test_what_a_model_declares_decides_in_a_generic_inline_too(
    root: DirectPeer, declared: Declared, parts: dict[str, Part]
) -> None:
    remark = Remark.objects.create(kind=ContentType.objects.get_for_model(Part), key=parts["bolt"].pk, text="sharp")
    with_inline(declared, RemarkInline)
    asked = {"model": "shop.part", "filter": {"remark__isnull": False}}
    assert not root.call("find_records", **asked)["isError"]

    declared.model(Remark, fields=["text"], use_admin=False)
    assert errors_of(root.call("find_records", **asked))
    site.unregister(Remark)
    site.register(Remark, fields=["text", "kind", "key"], use_admin=False)
    assert keys(root, **asked) == [parts["bolt"].pk] and remark.pk


class Nobodys(ModelMCP):
    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return False


def test_what_a_model_declares_decides_and_not_its_inline(root: DirectPeer, declared: Declared) -> None:
    registrations: list[dict[str, Any]] = [
        {"model_mcp": Nobodys}, {"rows": False}, {"fields": ["id"]}, {"exclude": ["part"]},
    ]  # fmt: skip
    for registration in registrations:
        declared.close()
        declared.admin(Part, PartAdmin)
        declared.model(Making, **registration)
        assert "makings" not in described(root, "shop.part").get("relations", {}), registration
        assert errors_of(root.call("find_records", model="shop.part", filter={"makings__isnull": False}))


def test_rows_of_a_hidden_parent_are_hidden(root: DirectPeer, declared: Declared, parts: dict[str, Part]) -> None:
    declared.admin(Part, PartAdmin)
    hidden = parts["secret"].makings.get()

    assert hidden.pk not in keys(root, "shop.making")
    assert root.call("get_record", model="shop.making", id=str(hidden.pk))["isError"] is True
    assert errors_of(root.call("find_records", model="shop.making", filter={"part": parts["secret"].pk}))
    assert root.error(MODERN, "resources/read", {"uri": f"db://shop/making/{hidden.pk}"})


def test_a_field_that_the_inline_excludes_is_found_by_no_query(root: DirectPeer, declared: Declared) -> None:
    declared.admin(Part, PartAdmin)

    for asked in ({"filter": {"open": True}}, {"order_by": ["open"]}, {"fields": ["open"]}):
        assert errors_of(root.call("find_records", model="shop.making", **asked))
    assert errors_of(root.call("find_records", model="shop.part", filter={"makings__open": True}))
    assert errors_of(root.call("find_records", model="shop.part", fields=["makings__open"]))


def test_rows_that_the_inline_leaves_out_are_hidden(
    root: DirectPeer, declared: Declared, parts: dict[str, Part]
) -> None:
    class Some(MakingInline):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(open=False)

    with_inline(declared, Some)
    opened = parts["nut"].makings.get()
    opened.open = False
    opened.save()

    assert keys(root, "shop.making") == [opened.pk]
    assert keys(root, "shop.part", filter={"makings__isnull": False}) == [parts["nut"].pk]


def test_who_may_not_view_the_rows_of_the_inline_sees_none(parts: dict[str, Part], declared: Declared) -> None:
    declared.admin(Part, PartAdmin)
    only_parts = DirectPeer(make_staff("ada", "shop.view_part"))
    only_makings = DirectPeer(make_staff("eve", "shop.view_making"))
    both = DirectPeer(make_staff("bob", "shop.view_part", "shop.view_making"))

    assert is_hidden(only_parts)
    assert "find_records" not in only_makings.tools()
    assert not is_hidden(both)


def test_a_secret_in_an_inline_stays_hidden(root: DirectPeer, declared: Declared, parts: dict[str, Part]) -> None:
    with_inline(declared, type("WarrantyInline", (Inline,), {"model": Warranty}))
    Warranty.objects.create(part=parts["bolt"], months=12)

    assert columns(root, "shop.warranty") == ["id", "part", "months"]
    assert errors_of(root.call("find_records", model="shop.warranty", filter={"pin__startswith": "1"}))
    assert errors_of(root.call("find_records", model="shop.part", filter={"warranty__pin": "1234"}))
    assert errors_of(root.call("find_records", model="shop.part", fields=["warranty__pin"]))


def test_a_model_that_is_hidden_stays_hidden_in_an_inline(root: DirectPeer, declared: Declared) -> None:
    inlines = [type("Own", (Inline,), {"model": model}) for model in (AccessToken, LogEntry)]
    declared.admin(User, type("Tokens", (UserAdmin,), {"inlines": inlines}))

    assert not {"mcp_django.accesstoken", "admin.logentry"} & set(site.models)
    assert not {"mcp_django.accesstoken", "admin.logentry"} & {*described(root, "auth.user")["relations"].values()}


def test_an_inline_without_a_key_to_its_parent_harms_no_other_model(root: DirectPeer, declared: Declared) -> None:
    with_inline(declared, type("Lost", (Inline,), {"model": Supplier}))

    assert columns(root, "shop.part")[:2] == ["id", "name"]
    assert "shop.supplier" not in site.models


def test_actions_of_an_inline_are_no_tools(root: DirectPeer, declared: Declared) -> None:
    with_inline(declared, type("Acting", (MakingInline,), {"actions": ["delete_selected"]}))

    assert not any("making" in name for name in site.tools)


def test_a_read_only_method_of_an_inline_can_be_asked_for(root: DirectPeer, declared: Declared) -> None:
    class Showing(MakingInline):
        readonly_fields = ["loud"]

        def loud(self, row: Making) -> str:
            return f"{row.part_id}!"

    with_inline(declared, Showing)

    rows = root.call("find_records", model="shop.making", fields=["loud"])["structuredContent"]["rows"]
    assert [row[1].endswith("!") for row in rows] == [True, True]


# A relation alone.


def test_a_model_in_two_inlines_is_a_relation_alone(root: DirectPeer, declared: Declared) -> None:
    declared.admin(Part, PartAdmin)
    other = type("OfSupplier", (MakingInline,), {"fk_name": "maker"})
    declared.admin(Supplier, type("SupplierAdmin", (Admin,), {"inlines": [other]}))
    whole = described(root, "shop.part")

    assert root.call("find_records", model="shop.making")["isError"] is True
    assert whole["relation_fields"] == {"makings": ["id", "part", "maker"]}
    assert len(keys(root, "shop.part", filter={"makings__maker__name": "Acme"})) == 2
    assert root.call("find_records", model="shop.part", fields=["makings"])["isError"] is False
    wrong = root.call("aggregate_records", model="shop.part", group_by=["makings__maker"])
    assert "ask shop.making itself" not in errors_of(wrong)[0]["message"].lower()


def test_a_generic_inline_is_a_relation_to_rows_of_its_type(
    root: DirectPeer, declared: Declared, parts: dict[str, Part]
) -> None:
    with_inline(declared, RemarkInline)
    part = ContentType.objects.get_for_model(Part)
    Remark.objects.create(text="here", kind=part, key=str(parts["bolt"].pk))
    Remark.objects.create(text="elsewhere", kind=ContentType.objects.get_for_model(Tag), key=str(parts["nut"].pk))
    Remark.objects.create(text="behind", kind=part, key=str(parts["secret"].pk))

    assert root.call("find_records", model="shop.remark")["isError"] is True
    assert keys(root, "shop.part", filter={"remark__isnull": False}) == [parts["bolt"].pk]
    assert keys(root, "shop.part", filter={"remark__text": "elsewhere"}) == []
    assert keys(root, "shop.part", filter={"remark__text": "behind"}) == []
    found = root.call("find_records", model="shop.part", fields=["remark__text"])["structuredContent"]["rows"]
    assert [row[1] for row in found] == [["here"], []]


def test_telling_that_a_hidden_parent_has_a_row_with_an_old_value(
    root: DirectPeer, declared: Declared, parts: dict[str, Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a generic inline belong to parents of any model, visible or not, so they are not asked by themselves."""
    monkeypatch.setattr(Remark._meta.get_field("text"), "choices", [("new", "New")])
    with_inline(declared, RemarkInline)
    remark = Remark.objects.create(kind=ContentType.objects.get_for_model(Part), key=str(parts["secret"].pk))

    for held in ("old", "new"):
        Remark.objects.filter(pk=remark.pk).update(text=held)
        found = root.call("find_records", model="shop.part", filter={"remark__text": "old"})["structuredContent"]
        assert found["rows"] == [], held
        assert found["notes"][0] == "remark__text: text has no choice 'old'. Allowed: new.", held


def test_the_rows_between_of_a_many_to_many_field_show_that_field(root: DirectPeer, declared: Declared) -> None:
    class Between(Inline):
        model = Product.tags.through

    declared.admin(Product, type("Own", (Admin,), {"exclude": ["tags"], "inlines": [Between]}))
    product = Product.objects.create(name="ball")
    product.tags.add(Tag.objects.create(name="red"))

    assert keys(root, "shop.product", filter={"tags__name": "red"}) == [product.pk]


LEAVING_OUT: list[dict[str, Any]] = [
    {"get_queryset": lambda self, request: Inline.get_queryset(self, request).none()},
    {"formset": type("Formset", (BaseInlineFormSet,), {"get_queryset": lambda self: self.model.objects.none()})},
]  # fmt: skip


def test_rows_between_that_the_inline_leaves_out_are_shown_by_no_field(root: DirectPeer, declared: Declared) -> None:
    for restricted in LEAVING_OUT:
        declared.close()
        inline = type("Between", (Inline,), {"model": Product.tags.through, **restricted})
        declared.admin(Product, type("Own", (Admin,), {"exclude": ["tags"], "inlines": [inline]}))
        assert errors_of(root.call("find_records", model="shop.product", filter={"tags__name": "red"})), restricted


# Inlines that stay hidden.


def _formset(**members: Any) -> Any:
    return type("Formset", (BaseInlineFormSet,), members)


DECIDING: list[dict[str, Any]] = [
    {"get_fields": lambda self, request, obj=None: ["maker"] if obj.pk else []},
    {"get_formset": lambda self, request, obj=None, **args: obj.pk and Inline.get_formset(self, request, obj, **args)},
    {"has_view_permission": lambda self, request, obj=None: bool(obj.pk)},
    {"has_view_permission": lambda self, request, obj=None: False},
    {"get_exclude": lambda self, request, obj=None: ["open"] if obj.pk else []},
    {"formset": _formset(get_queryset=lambda self: super(BaseInlineFormSet, self).get_queryset()[:1])},
    {"formset": _formset(__init__=lambda self, *args, **kwargs: None)},
]  # fmt: skip


def test_an_inline_that_may_decide_by_its_parent_is_hidden(root: DirectPeer, declared: Declared) -> None:
    for hidden in DECIDING:
        declared.close()
        with_inline(declared, type("Deciding", (MakingInline,), hidden))
        assert is_hidden(root), hidden


#: Hooks that look at nothing of the parent.
NOT_DECIDING: list[dict[str, Any]] = [
    {"get_fields": lambda self, request, obj=None: ["maker"]},
    {"get_formset": lambda self, request, obj=None, **args: Inline.get_formset(self, request, obj, **args)},
    {"has_view_permission": lambda self, request, obj=None: obj is not None},
    {"has_add_permission": lambda self, request, obj=None: bool(obj.pk)},
    {"formfield_for_foreignkey": lambda self, field, request, **args: field.formfield()},
]  # fmt: skip


def test_an_inline_whose_hooks_look_at_nothing_of_the_parent_is_shown(root: DirectPeer, declared: Declared) -> None:
    for shown in NOT_DECIDING:
        declared.close()
        with_inline(declared, type("Deciding", (MakingInline,), shown))
        assert not is_hidden(root), shown
    for hook in ({"get_inlines": lambda self, request, obj=None: self.inlines}, {"get_fieldsets": fieldsets}):
        declared.close()
        with_inline(declared, MakingInline, **hook)
        assert not is_hidden(root), hook


def fieldsets(self: Any, request: HttpRequest, obj: Any = None) -> Any:
    return [(None, {"fields": ["name"]})]


HOOKS: list[dict[str, Any]] = [
    {"get_inlines": lambda self, request, obj=None: self.inlines if obj.pk else []},
    {"get_inlines": lambda self, request, obj=None: []},
    {"get_inline_instances": lambda self, request, obj=None: []},
    {"get_formsets_with_inlines": lambda self, request, obj=None: []},
    {"get_fieldsets": lambda self, request, obj=None: obj.pk and []},
    {"has_view_permission": lambda self, request, obj=None: obj is None},
]  # fmt: skip


def test_inlines_of_a_parent_that_may_decide_by_the_object_are_hidden(root: DirectPeer, declared: Declared) -> None:
    for hook in HOOKS:
        declared.close()
        with_inline(declared, MakingInline, **hook)
        assert is_hidden(root), hook
    declared.close()
    declared.admin(Part, PartAdmin)
    declared.model(Part, fields=["name"])
    assert is_hidden(root)  # A registration that names its fields.


def test_a_registered_model_is_that_of_its_registration(root: DirectPeer, declared: Declared) -> None:
    class Narrow(ModelMCP):
        fields = ["part"]

    declared.admin(Part, PartAdmin)
    declared.admin(Making, type("MakingAdmin", (Admin,), {"fields": ["maker"]}))
    assert columns(root, "shop.making") == ["id"]

    declared.admin(Making, None)
    declared.model(Making, Narrow)
    assert columns(root, "shop.making") == ["id", "part"]


def test_an_inline_of_a_model_that_the_admin_shows_elsewhere_is_hidden_with_its_cure(declared: Declared) -> None:
    class Two(Inline):
        model = Warranty

        def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
            return [] if obj.pk else ["months"]

    declared.admin(Part, type("Own", (PartAdmin,), {"inlines": [Two]}))

    missing = inventory.build(site)["admin"]["missing"]["shop.part"]
    assert missing["inline shop.warranty.months"].endswith(
        "Two.get_fields decides by the object of the parent; register a ModelMCP for shop.warranty"
    )


def test_a_relation_by_an_inline_is_gone_where_it_is_excluded_or_no_admin_is_exposed(
    root: DirectPeer, declared: Declared, settings: Any
) -> None:
    def relations(**options: Any) -> Any:
        declared.close()
        declared.admin(Part, PartAdmin)
        declared.model(Part, **options)
        return described(root, "shop.part").get("relations", {})

    assert relations() == {"makings": "shop.making"}
    assert relations(exclude=["makings"]) == {}
    settings.MCP = {**settings.MCP, "EXPOSE_ADMIN": False}
    assert relations() == {}
    assert "shop.making" not in MCPSite("other").models


def test_a_cut_list_of_a_relation_alone_names_no_model_to_ask(
    root: DirectPeer, declared: Declared, parts: dict[str, Part]
) -> None:
    with_inline(declared, RemarkInline)
    part = ContentType.objects.get_for_model(Part)
    Remark.objects.bulk_create(Remark(text="x", kind=part, key=str(parts["bolt"].pk)) for _ in range(21))

    result = root.call("find_records", model="shop.part", fields=["remark"])

    notes = str(result["structuredContent"].get("notes"))
    assert "lists at most 20 rows." in notes and "shop.remark" not in notes
    assert text_of(result)
