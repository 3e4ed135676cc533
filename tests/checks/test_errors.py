"""Errors of the system checks: each id, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Error
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.http import HttpRequest
from django.test import override_settings
from rest_framework import serializers

from demo_project.flights.models import Airline, Flight, Plane
from mcp_django import ModelMCP, site
from mcp_django.conf import get_conf, load
from mcp_django.events import bus, nats_servers
from mcp_django.resources.field_kinds import NAMED
from tests.checks.conftest import Admin, messages, of
from tests.shop.models import Apikey, Book, CheapProduct, Part, Product, Tag, Unwatched
from tests.support.declared import Declared


def test_the_demo_has_nothing_to_be_told() -> None:
    assert messages() == []


@override_settings(MCP={"MAX_ROW": 5, "QQQ": 1})
def test_e001_an_unknown_setting_is_told_with_the_nearest() -> None:
    assert messages() == [
        Error("MCP has no key 'MAX_ROW'.", hint="Did you mean MAX_ROWS?", id="mcp_django.E001"),
        Error("MCP has no key 'QQQ'.", id="mcp_django.E001"),
    ]


def test_an_unknown_setting_is_refused_where_it_is_read() -> None:
    with override_settings(MCP={"MAX_ROW": 5}), pytest.raises(ImproperlyConfigured, match="unknown keys: MAX_ROW"):
        get_conf()


def test_settings_have_defaults_and_take_lists() -> None:
    assert load({}).MAX_ROWS == 1_000
    assert load({"ALLOWED_ORIGINS": ["https://a.example"]}).ALLOWED_ORIGINS == ("https://a.example",)


@override_settings(MCP={"CHANNEL_LAYER": "nowhere"}, CHANNEL_LAYERS={})
def test_e002_a_channel_layer_that_is_not_there() -> None:
    [message] = of("E002")

    assert isinstance(message, Error) and "nowhere" in message.msg


def _act(self: Any, request: HttpRequest, queryset: Any) -> None:
    pass


def test_e003_two_actions_of_one_tool_name(declared: Declared) -> None:
    class A(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "shop_x"
            db_table = "collision_a"

    class X_A(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "shop"
            db_table = "collision_b"

    declared.admin(A, type("One", (Admin,), {"actions": ["act"], "act": _act}))
    declared.admin(X_A, type("Two", (Admin,), {"actions": ["act"], "act": _act}))

    [message] = of("W015")

    assert message.msg in (
        "The action shop_x.a.act has the same tool name as the action shop.x_a.act: shop_x_a_act. It is not offered.",
        "The action shop.x_a.act has the same tool name as the action shop_x.a.act: shop_x_a_act. It is not offered.",
    )
    assert message.hint == "Rename one of them."


def test_e003_an_action_and_a_function_of_one_tool_name(declared: Declared) -> None:
    def flights_flight_mark_cancelled(request: HttpRequest) -> None:
        """Act."""

    declared.tool(flights_flight_mark_cancelled)

    [message] = of("E003")

    assert message.msg == (
        "The action flights.flight.mark_cancelled has the same tool name as the tool flights_flight_mark_cancelled: "
        "flights_flight_mark_cancelled."
    )


def test_e004_a_composite_key(declared: Declared) -> None:
    class Pair(models.Model):  # noqa: DJ008
        pk = models.CompositePrimaryKey("left", "right")
        left = models.IntegerField()
        right = models.IntegerField()

        class Meta:
            app_label = "shop"

    declared.model(Pair, fields="__all__")

    [message] = of("E004")

    assert isinstance(message, Error)
    assert message.msg == "shop.pair has a composite primary key, which has no URI yet."


def test_e005_no_fields_and_no_admin_to_ask(declared: Declared) -> None:
    declared.model(Unwatched)

    [message] = of("E005")

    assert message.msg == "ModelMCP names no fields, and shop.unwatched has no ModelAdmin to take them from."
    assert message.hint == 'Set fields = [...], or fields = "__all__" for all fields that are not secrets.'


def test_e005_is_silent_where_fields_are_named_or_asked_of_the_admin(declared: Declared) -> None:
    declared.model(Unwatched, fields=["name"])
    declared.model(Flight)
    declared.model(Product, fields="__all__")

    assert messages() == []


@pytest.mark.parametrize(
    ("attribute", "other"),
    [
        ("fields", "flights"),
        ("extra_fields", "flights"),
        ("exclude", "flights__id"),
        ("filter_fields", "flights__qqq"),
    ],
)
def test_e006_a_name_that_is_no_column(declared: Declared, attribute: str, other: str) -> None:
    class AirlineMCP(ModelMCP):
        pass

    declared.model(Airline, AirlineMCP, **{attribute: ["nme", "qqq", other]})

    found = of("E006")

    assert [message.msg for message in found] == [
        f"AirlineMCP.{attribute} names {name!r}, which is no column of flights.airline."
        for name in ("nme", "qqq", other)
    ]
    assert [message.hint for message in found][:2] == ["Did you mean name?", "Columns: carrier, name."]


@pytest.mark.parametrize(
    ("attribute", "names"),
    [
        ("fields", ["name", "supplier", "supplier_id", "tags", "__str__", "summary"]),
        ("exclude", ["supplier_id", "tags", "makings", "warranty", "summary"]),
        ("filter_fields", ["pk", "name", "supplier__name", "supplier__parent", "tags__name", "makings__count", "tags"]),
    ],
)
def test_e006_is_silent_for_all_that_a_name_may_mean(declared: Declared, attribute: str, names: list[str]) -> None:
    class PartMCP(ModelMCP):
        fields = "__all__"

        def summary(self, part: Part) -> str:
            return part.name

    declared.model(Tag, fields="__all__", exclude=["product_set"])
    declared.model(Part, PartMCP, **{attribute: names})

    assert of("E006") == []


def test_e007_a_key_that_is_hidden(declared: Declared) -> None:
    declared.model(Apikey, fields="__all__")

    [message] = of("E007")

    assert message.msg == "The primary key of shop.apikey cannot be read, so no agent can see the model."
    assert "token" in (message.hint or "")


def test_e007_is_silent_where_the_key_is_named(declared: Declared) -> None:
    declared.model(Apikey, fields=["token"])

    assert of("E007") == []


class OfFlights(serializers.ModelSerializer[Flight]):
    class Meta:
        model = Flight
        fields = ("id",)


class OfNothing(serializers.ModelSerializer[Flight]):
    pass


class OfProducts(serializers.ModelSerializer[Product]):
    class Meta:
        model = CheapProduct
        fields = ("id",)


@pytest.mark.parametrize("cls", [OfProducts, OfNothing, Flight, serializers.BaseSerializer, "OfFlights"])
def test_e009_a_serializer_of_something_else(declared: Declared, cls: Any) -> None:
    declared.model(Flight, serializer_class=cls)

    assert of("E009") == [
        Error(
            f"FlightMCP.serializer_class is {cls!r}, which is no serializer of flights.flight: no record can be read.",
            hint="Name a subclass of rest_framework.serializers.Serializer; a ModelSerializer has the model in Meta.",
            id="mcp_django.E009",
        )
    ]


@pytest.mark.parametrize(("model", "cls"), [
    (Flight, OfFlights), (Flight, serializers.Serializer), (Product, OfProducts), (Book, OfProducts),
])  # fmt: skip
def test_e009_is_silent_for_a_serializer_of_the_model_or_of_a_parent(declared: Declared, model: Any, cls: Any) -> None:
    declared.model(model, fields="__all__", serializer_class=cls)

    assert of("E009") == []


@pytest.mark.parametrize("name", ["departed_at", "number"])
def test_e010_a_moment_that_is_none(declared: Declared, name: str) -> None:
    declared.model(Flight, last_modified_field=name)

    assert of("E010") == [
        Error(
            f"FlightMCP.last_modified_field names {name!r}, which is no DateTimeField of flights.flight.",
            hint="DateTimeFields: departs_at.",
            id="mcp_django.E010",
        )
    ]


@pytest.mark.parametrize(
    "annotations", [{"audience": "user"}, {"priority": 2}, {"title": "x"}, {"last_modified": None}]
)
def test_e011_annotations_that_no_client_could_read(declared: Declared, annotations: Any) -> None:
    declared.model(Flight, annotations=annotations, last_modified_field="departs_at")

    [message] = of("E011")

    assert message.msg.startswith("FlightMCP.annotations cannot be sent to clients: ")
    assert message.hint == 'Only "audience" and "priority" are allowed.'


@pytest.mark.parametrize(
    ("mcp", "message"),
    [
        (
            {"PUSH_DATABASE": "nowhere"},
            "MCP['PUSH_DATABASE'] names 'nowhere', which is no PostgreSQL database of DATABASES.",
        ),
        (
            {"PUSH_DATABASE": "other"},
            "MCP['PUSH_DATABASE'] names 'other', which is no PostgreSQL database of DATABASES.",
        ),
        (
            {"PUSH_LISTEN_DATABASE": "other"},
            "MCP['PUSH_LISTEN_DATABASE'] is of no use without MCP['PUSH_DATABASE'].",
        ),
    ],
)
def test_e012_a_database_that_cannot_carry_changes(mcp: dict[str, Any], message: str) -> None:
    with override_settings(MCP=mcp):
        assert of("E012") == [Error(message, id="mcp_django.E012")]


@pytest.mark.parametrize(
    ("mcp", "message"),
    [
        (
            {"BUS": "localhost:4222"},
            "URL 1 in MCP['BUS'] begins with neither nats:// nor tls://. Write nats://host:4222, "
            "tls://user:password@host:4222 or nats://token@host:4222, and other characters in a user, password or "
            "token as %40.",
        ),
        (
            {"BUS": "nats://localhost", "PUSH_DATABASE": "other"},
            "MCP['BUS'] and MCP['PUSH_DATABASE'] both carry changes: leave one of them out.",
        ),
        *(
            (
                {"BUS": "nats://localhost", "PUSH_CHANNEL": subject},
                "MCP['PUSH_CHANNEL'] must be a subject of NATS: letters, digits, - and _, in parts divided by dots.",
            )
            for subject in ("", "two words", "a..b", ".a", "a.", "mcp.*", "mcp.>", "$SYS.a", "a\r\nPUB b 1")
        ),
    ],
)
def test_e012_a_nats_server_that_cannot_carry_changes(postgresql: None, mcp: dict[str, Any], message: str) -> None:
    with override_settings(MCP=mcp):
        assert of("E012") == [Error(message, id="mcp_django.E012")]


def test_e012_nats_py_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_servers, "find_spec", lambda name: None)

    with override_settings(MCP={"BUS": "nats://localhost"}):
        [message] = of("E012")

    assert message.msg == "MCP['BUS'] needs nats-py: python -m pip install 'django-admin-mcp-server[nats]'"


@pytest.mark.parametrize("url", [None, "", "nats://localhost", "tls://me:pw@one:4222,tls://two:4222"])
def test_e012_is_silent_where_nats_is_named_or_nothing(url: str | None) -> None:
    with override_settings(MCP={"BUS": url, "PUSH_CHANNEL": "shop.mcp_django"}):
        assert of("E012") == []


class _PostgreSQL:
    vendor = "postgresql"


@pytest.fixture
def postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alias "other" is one of PostgreSQL; nobody connects to it."""
    monkeypatch.setattr(bus, "connections", {"other": _PostgreSQL()})


@pytest.mark.parametrize(("channel", "is_name"), [("c" * 48, True), ("", False), ("c" * 49, False), ("ü" * 25, False)])
def test_e012_a_channel_that_is_no_name(postgresql: None, channel: str, is_name: bool) -> None:
    with override_settings(MCP={"PUSH_DATABASE": "other", "PUSH_CHANNEL": channel}):
        messages = [] if is_name else ["MCP['PUSH_CHANNEL'] must be a name of at most 48 bytes."]

        assert [message.msg for message in of("E012")] == messages


def test_e012_psycopg_3_is_not_there(postgresql: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus, "find_spec", lambda name: None)

    with override_settings(MCP={"PUSH_DATABASE": "other"}):
        [message] = of("E012")

    assert message.msg == "MCP['PUSH_DATABASE'] needs psycopg 3: python -m pip install 'psycopg[binary,pool]'"


class LongNamesAdmin(Admin):  # type: ignore[misc]
    actions = ["mark_everything_that_was_ever_chosen_by_anybody_as_done_and_over"]
    mark_everything_that_was_ever_chosen_by_anybody_as_done_and_over = _act


def test_e003_tool_names_that_are_cut_are_told_apart(declared: Declared) -> None:
    """Only what is equal before it is cut collides."""
    declared.admin(Product, LongNamesAdmin)
    declared.admin(Airline, LongNamesAdmin)
    declared.admin(Plane, LongNamesAdmin)

    assert messages() == []


def test_e003_a_function_takes_the_name_of_a_cut_action(declared: Declared) -> None:
    declared.admin(Product, LongNamesAdmin)
    [cut] = [name for name in site.tools if name.startswith("shop_product_mark")]

    def act(request: HttpRequest) -> None:
        """Act."""

    declared.tool(act, name=cut)

    [message] = of("E003")
    assert len(cut) == 64
    assert message.msg == (
        f"The action shop.product.{LongNamesAdmin.actions[0]} has the same tool name as the tool {cut}: {cut}."
    )


@pytest.mark.parametrize(("path", "text"), [
    ("rest_framework.authentication.SessionAuthentication", "any page in the browser could send it. Use tokens."),
    ("nowhere.Nothing", "No module named 'nowhere'"),
])  # fmt: skip
def test_e008_authentication_that_cannot_be_used(path: str, text: str) -> None:
    with override_settings(MCP={"AUTHENTICATION_CLASSES": [path]}):
        [message] = of("E008")

    assert isinstance(message, Error)
    assert message.msg.startswith("No call can be answered: ") and message.msg.endswith(text)


@pytest.mark.parametrize(("path", "problem"), [
    ("nowhere.site", "cannot be imported: No module named 'nowhere'"),
    ("django.contrib.admin.site.nothing", "cannot be imported: "),
    ("django.contrib.admin.ModelAdmin", "names <class 'django.contrib.admin.options.ModelAdmin'>, which is no Admin"),
])  # fmt: skip
def test_e013_an_admin_site_that_is_none(path: str, problem: str) -> None:
    with override_settings(MCP={"ADMIN_SITE": path}):
        [message] = of("E013")

    assert message.msg.startswith(f"MCP['ADMIN_SITE'] {problem}")


def test_e013_is_silent_for_the_default_admin_site() -> None:
    with override_settings(MCP={"ADMIN_SITE": "django.contrib.admin.site"}):
        assert of("E013") == []


@pytest.mark.parametrize(("path", "kind", "problem", "hint"), [
    ("tests.shop.fields.SealFeld", "text", "names 'tests.shop.fields.SealFeld', which cannot be imported: ", None),
    ("nothing", "text", "names 'nothing', which cannot be imported: ", None),
    ("tests.shop.fields.Size", "text", "names 'tests.shop.fields.Size', which is no class of fields.", None),
    ("tests.shop.fields.OwnerKey", "text", "names 'tests.shop.fields.OwnerKey', which is a relation: ", None),
    ("django.db.models.CharField", "integer", "names 'django.db.models.CharField', whose kind is 'text' in any", None),
    ("tests.shop.fields.SealedField", "txt", "gives 'tests.shop.fields.SealedField' the kind 'txt', which does not",
     "Did you mean text?"),
    ("tests.shop.fields.SealedField", "qqqq", "gives 'tests.shop.fields.SealedField' the kind 'qqqq', which does not",
     f"Kinds: {', '.join(NAMED)}."),
    ("tests.shop.fields.SealedField", "file", "gives 'tests.shop.fields.SealedField' the kind 'file', but it is", None),
])  # fmt: skip
def test_e014_a_kind_of_a_class_that_cannot_be(path: str, kind: str, problem: str, hint: str | None) -> None:
    with override_settings(MCP={"FIELD_KINDS": {path: kind}}):
        [message] = of("E014")

    assert message.msg.startswith(f"MCP['FIELD_KINDS'] {problem}")
    assert message.hint == hint


@pytest.mark.parametrize("kind", ["text", "integer", "ip address", "json"])
def test_e014_is_silent_for_a_class_and_its_kind(kind: str) -> None:
    with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.SealedField": kind}}):
        assert of("E014") == []


@pytest.mark.parametrize("setting", ["DEFAULT_SCOPES", "ANONYMOUS_SCOPES"])
def test_e016_a_setting_with_what_is_no_scope(setting: str) -> None:
    with override_settings(MCP={setting: ["read", "model:flights.flight"]}):
        [message] = of("E016")

    assert message.msg.startswith(f"MCP['{setting}']: unknown scope 'model:flights.flight'; the scopes are read, ")


def test_e016_is_silent_for_scopes() -> None:
    with override_settings(MCP={"DEFAULT_SCOPES": [], "ANONYMOUS_SCOPES": ["model:flights.flight:read", "tool:x"]}):
        assert of("E016") == []


def test_e015_fields_and_extra_fields(declared: Declared) -> None:
    declared.model(Airline, fields=["name"], extra_fields=["carrier"])

    [message] = of("E015")

    assert message.msg == (
        "AirlineMCP has fields and extra_fields: the first names all that is shown of flights.airline, the second what "
        "is shown beside its ModelAdmin's."
    )
    assert message.hint == "Set one of them."


def test_e015_is_silent_where_one_of_them_is_set(declared: Declared) -> None:
    declared.model(Airline, extra_fields=["carrier"])
    declared.model(Flight, fields=["number"])

    assert messages() == []


@override_settings(MCP={"THROTTLES": {"user": {"calls": "10/month"}, "team": {}}})
def test_e020_every_wrong_limit_is_told_with_the_remedy() -> None:
    assert of("E020") == [
        Error(
            "MCP['THROTTLES'] ['user']: '10/month' is not a rate. Write a number and a period, such as '600/min'. The "
            "periods are s, min, hour and day.",
            id="mcp_django.E020",
        ),
        Error("MCP['THROTTLES'] names 'team'. It may name user, token, address.", id="mcp_django.E020"),
    ]


@override_settings(MCP={"THROTTLE_CACHE": "nowhere"})
def test_e021_a_cache_that_is_not_there() -> None:
    [message] = of("E021")

    assert isinstance(message, Error) and "nowhere" in message.msg


@pytest.mark.parametrize("types", ["image/*", ["image"], ["text/csv", 1], ["*"], ["image/ *"]])
def test_e029_what_is_no_media_type(types: Any) -> None:
    with override_settings(MCP={"UPLOAD_TYPES": types}):
        [message] = of("E029")

    assert isinstance(message, Error) and message.msg.startswith("MCP['UPLOAD_TYPES'] has ")


def test_e029_is_silent_for_media_types() -> None:
    with override_settings(MCP={"UPLOAD_TYPES": ["image/*", "*/*", "Text/CSV", "image/svg+xml"]}):
        assert of("E029") == []


@pytest.mark.parametrize("url", [None, True, "docs.example.com", "javascript:alert(1)"])
def test_e031_what_no_page_can_link_to(url: Any) -> None:
    with override_settings(MCP={"DOCS_URL": url}):
        [message] = of("E031")

    assert isinstance(message, Error) and message.msg == f"MCP['DOCS_URL'] is {url!r}."


@pytest.mark.parametrize("url", ["", "/docs", "http://docs/", "https://docs.example.com/mcp"])
def test_e031_is_silent_for_addresses(url: str) -> None:
    with override_settings(MCP={"DOCS_URL": url}):
        assert of("E031") == []


def test_e030_another_distribution_has_the_same_import_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "mcp_django-0.2.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: mcp-django\nVersion: 0.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    [message] = of("E030")

    assert isinstance(message, Error) and message.msg.startswith("The distribution mcp-django is installed too.")
    assert "pip uninstall mcp-django django-admin-mcp-server" in str(message.hint)
