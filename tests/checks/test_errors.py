"""Errors of the system checks: each id, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Error, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, models, router
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest
from django.test import override_settings
from rest_framework import serializers

from demo_project.flights.models import Airline, Flight, Plane
from mcp_django import ModelMCP, buses, site
from mcp_django.bridge.resources.fields.field_kinds import NAMED
from mcp_django.checks import bus
from mcp_django.checks.bus import check_databases
from mcp_django.conf import get_conf, load
from mcp_django.core.events import postgresql as postgresql_bus
from mcp_django.core.events.bus import PUBSUB, LocalBus
from tests.checks.conftest import Admin, messages, of
from tests.shop.models import Apikey, Book, CheapProduct, Part, Product, Tag, Unwatched
from tests.support.declared import Declared


def test_the_demo_has_nothing_to_be_told() -> None:
    assert messages() == []


def test_the_models_of_the_tests_pass_the_checks_before_which_no_worker_begins() -> None:
    assert [message for message in run_checks(databases=[]) if message.is_serious()] == []


@override_settings(MCP={"MAX_ROW": 5, "QQQ": 1})
def test_e001_an_unknown_setting_is_told_with_the_nearest_and_refused_where_it_is_read() -> None:
    assert messages() == [
        Error("MCP has no key 'MAX_ROW'.", hint="Did you mean MAX_ROWS?", id="mcp_django.E001"),
        Error("MCP has no key 'QQQ'.", id="mcp_django.E001"),
    ]
    with pytest.raises(ImproperlyConfigured, match="unknown keys: MAX_ROW"):
        get_conf()


def test_settings_have_defaults_and_take_lists() -> None:
    assert load({}).MAX_ROWS == 1_000
    assert load({"ALLOWED_ORIGINS": ["https://a.example"]}).ALLOWED_ORIGINS == ("https://a.example",)


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
    declared.close()
    declared.model(Unwatched, fields=["name"])
    declared.model(Flight)
    declared.model(Product, fields="__all__")
    assert messages() == []


def test_e006_a_name_that_is_no_column(declared: Declared) -> None:
    class AirlineMCP(ModelMCP):
        pass

    others = {"fields": "flights", "extra_fields": "flights", "exclude": "flights__id", "filter_fields": "flights__qqq"}
    for attribute, other in others.items():
        # A name that is nearly one to be hidden is refused before.
        names = ["qqq" if attribute == "exclude" else "nme", "ppp", other]
        declared.model(Airline, AirlineMCP, **{attribute: names})
        found = of("E006")
        declared.close()

        assert [message.msg for message in found] == [
            f"AirlineMCP.{attribute} names {name!r}, which is no column of flights.airline." for name in names
        ]
        columns = "Columns: carrier, name."
        hints = [columns if attribute == "exclude" else "Did you mean name?", columns]
        assert [message.hint for message in found][:2] == hints


def test_e006_is_silent_for_all_that_a_name_may_mean(declared: Declared) -> None:
    class PartMCP(ModelMCP):
        fields = "__all__"

        def summary(self, part: Part) -> str:
            return part.name

    meant = {
        "fields": ["name", "supplier", "supplier_id", "tags", "__str__", "summary"],
        "exclude": ["supplier_id", "tags", "makings", "warranty", "summary"],
        "filter_fields": ["pk", "name", "supplier__name", "supplier__parent", "tags__name", "makings__count", "tags"],
    }
    for attribute, names in meant.items():
        declared.model(Tag, fields="__all__", exclude=["product_set"])
        declared.model(Part, PartMCP, **{attribute: names})
        assert of("E006") == [], attribute
        declared.close()


def test_e007_a_key_that_is_hidden_and_not_named(declared: Declared) -> None:
    declared.model(Apikey, fields="__all__")
    [message] = of("E007")
    declared.close()
    declared.model(Apikey, fields=["token"])

    assert message.msg == "The primary key of shop.apikey cannot be read, so no agent can see the model."
    assert "token" in (message.hint or "")
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


def test_e009_a_serializer_of_something_else_than_the_model_and_its_parents(declared: Declared) -> None:
    wrong: list[Any] = [OfProducts, OfNothing, Flight, serializers.BaseSerializer, "OfFlights"]
    hint = "Name a subclass of rest_framework.serializers.Serializer; a ModelSerializer has the model in Meta."
    for cls in wrong:
        declared.model(Flight, serializer_class=cls)
        text = (
            f"FlightMCP.serializer_class is {cls!r}, which is no serializer of flights.flight: no record can be read."
        )
        assert of("E009") == [Error(text, hint=hint, id="mcp_django.E009")]
        declared.close()
    right: list[tuple[Any, Any]] = [
        (Flight, OfFlights), (Flight, serializers.Serializer), (Product, OfProducts), (Book, OfProducts),
    ]  # fmt: skip
    for model, cls in right:
        declared.model(model, fields="__all__", serializer_class=cls)
        assert of("E009") == [], (model, cls)
        declared.close()


def test_e010_a_moment_that_is_none(declared: Declared) -> None:
    for name in ("departed_at", "number"):
        declared.model(Flight, last_modified_field=name)
        text = f"FlightMCP.last_modified_field names {name!r}, which is no DateTimeField of flights.flight."
        assert of("E010") == [Error(text, hint="DateTimeFields: departs_at.", id="mcp_django.E010")]
        declared.close()


def test_e011_annotations_that_no_client_could_read(declared: Declared) -> None:
    wrong: list[Any] = [{"audience": "user"}, {"priority": 2}, {"title": "x"}, {"last_modified": None}]
    for chosen in wrong:
        declared.model(Flight, annotations=chosen, last_modified_field="departs_at")
        [message] = of("E011")
        declared.close()

        assert message.msg.startswith("FlightMCP.annotations cannot be sent to clients: "), chosen
        assert message.hint == 'Only "audience" and "priority" are allowed.'


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


def test_e015_fields_and_extra_fields(declared: Declared) -> None:
    declared.model(Airline, fields=["name"], extra_fields=["carrier"])

    [message] = of("E015")

    assert message.msg == (
        "AirlineMCP has fields and extra_fields: the first names all that is shown of flights.airline, the second what "
        "is shown beside its ModelAdmin's."
    )
    assert message.hint == "Set one of them."
    declared.close()
    declared.model(Airline, extra_fields=["carrier"])
    declared.model(Flight, fields=["number"])
    assert messages() == []


# Settings: each wrong value with the beginning of what is said of it, and values of which nothing is said.


class _PostgreSQL:
    vendor = "postgresql"


@pytest.fixture
def postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alias "other" is one of PostgreSQL; nobody connects to it."""
    monkeypatch.setattr(postgresql_bus, "connections", {"other": _PostgreSQL()})


class OwnBus(LocalBus):
    """A bus that a project has written."""

    def __init__(self, size: int) -> None:
        super().__init__()


def bus_of(name: str, **options: Any) -> dict[str, Any]:
    return {"BACKEND": f"mcp_django.buses.{name}", "OPTIONS": options}


UNKNOWN_SCOPE = "unknown scope 'model:flights.flight'; the scopes are read, "
NO_DATABASE = "which is no PostgreSQL database of DATABASES."
NO_CLASS = "which cannot be imported: "

#: Check, key and value; what is said of it begins so, and hints at this, where that is given.
WRONG: list[tuple[str, str, Any, str, str | None]] = [
    ("E013", "ADMIN_SITE", "nowhere.site", "MCP['ADMIN_SITE'] cannot be imported: No module named 'nowhere'", None),
    ("E013", "ADMIN_SITE", "django.contrib.admin.site.nothing", "MCP['ADMIN_SITE'] cannot be imported: ", None),
    ("E013", "ADMIN_SITE", "django.contrib.admin.ModelAdmin",
     "MCP['ADMIN_SITE'] names <class 'django.contrib.admin.options.ModelAdmin'>, which is no Admin", None),
    *(("E014", "FIELD_KINDS", {f"tests.shop.fields.{name}": kind}, f"MCP['FIELD_KINDS'] {text}", hint)
      for name, kind, text, hint in [
          ("SealFeld", "text", f"names 'tests.shop.fields.SealFeld', {NO_CLASS}", None),
          ("Size", "text", "names 'tests.shop.fields.Size', which is no class of fields.", None),
          ("OwnerKey", "text", "names 'tests.shop.fields.OwnerKey', which is a relation: ", None),
          ("SealedField", "txt", "gives 'tests.shop.fields.SealedField' the kind 'txt', which does not",
           "Did you mean text?"),
          ("SealedField", "qqqq", "gives 'tests.shop.fields.SealedField' the kind 'qqqq', which does not",
           f"Kinds: {', '.join(NAMED)}."),
          ("SealedField", "file", "gives 'tests.shop.fields.SealedField' the kind 'file', but it is", None),
      ]),
    ("E014", "FIELD_KINDS", {"nothing": "text"}, f"MCP['FIELD_KINDS'] names 'nothing', {NO_CLASS}", None),
    ("E014", "FIELD_KINDS", {"django.db.models.CharField": "integer"},
     "MCP['FIELD_KINDS'] names 'django.db.models.CharField', whose kind is 'text' in any", None),
    *(("E016", key, ["read", "model:flights.flight"], f"MCP['{key}']: {UNKNOWN_SCOPE}", None)
      for key in ("DEFAULT_SCOPES", "ANONYMOUS_SCOPES", "SELF_SERVICE")),
    ("E020", "THROTTLES", {"user": {"calls": "10/month"}},
     "MCP['THROTTLES'] ['user']: '10/month' is not a rate. Write a number and a period, such as '600/min'. The "
     "periods are s, min, hour and day.", None),
    ("E020", "THROTTLES", {"team": {}}, "MCP['THROTTLES'] names 'team'. It may name user, token, address.", None),
    ("E021", "THROTTLE_CACHE", "nowhere", "MCP['THROTTLE_CACHE']: The connection 'nowhere' doesn't exist", None),
    *(("E028", key, days, f"MCP['{key}'] is {days}.", None) for key in ("TOKEN_DAYS", "TOKEN_MAX_DAYS")
      for days in (0, -1)),
    *(("E029", "UPLOAD_TYPES", types, "MCP['UPLOAD_TYPES'] has ", None)
      for types in ("image/*", ["image"], ["text/csv", 1], ["*"], ["image/ *"])),
    *(("E031", "DOCS_URL", url, f"MCP['DOCS_URL'] is {url!r}.", None)
      for url in (None, True, "docs.example.com", "javascript:alert(1)")),
]  # fmt: skip


def test_a_setting_with_a_wrong_value_is_told_with_what_is_wrong() -> None:
    told, wanted = {}, {}
    for number, key, value, text, hint in WRONG:
        with override_settings(MCP={key: value}, CHANNEL_LAYERS={}):
            [message] = of(number)
        case = number, key, str(value)
        told[case] = type(message), message.msg[: len(text)], message.hint if hint else None
        wanted[case] = Error, text, hint

    assert told == wanted


def test_a_setting_with_a_right_value_is_not_told_of() -> None:
    right: list[tuple[str, dict[str, Any]]] = [
        *(("E012", {"BUS": bus}) for bus in (
            None, "", {}, "nats://localhost", "tls://me:pw@one:4222,tls://two:4222",
            bus_of("NATSBus", servers="nats://one", channel="shop.mcp_django"),
            {"BACKEND": "tests.checks.test_errors.OwnBus", "OPTIONS": {"size": 3}},
        )),
        ("E013", {"ADMIN_SITE": "django.contrib.admin.site"}),
        *(("E014", {"FIELD_KINDS": {"tests.shop.fields.SealedField": kind}})
          for kind in ("text", "integer", "ip address", "json")),
        ("E016", {"DEFAULT_SCOPES": [], "ANONYMOUS_SCOPES": ["model:flights.flight:read", "tool:x"]}),
        ("E029", {"UPLOAD_TYPES": ["image/*", "*/*", "Text/CSV", "image/svg+xml"]}),
        *(("E031", {"DOCS_URL": url}) for url in ("", "/docs", "http://docs/", "https://docs.example.com/mcp")),
    ]  # fmt: skip
    for number, values in right:
        with override_settings(MCP=values):
            assert of(number) == [], values


@pytest.mark.parametrize(("path", "text"), [
    ("rest_framework.authentication.SessionAuthentication", "any page in the browser could send it. Use tokens."),
    ("nowhere.Nothing", "No module named 'nowhere'"),
])  # fmt: skip
def test_e008_authentication_that_cannot_be_used(path: str, text: str) -> None:
    with override_settings(MCP={"AUTHENTICATION_CLASSES": [path]}):
        [message] = of("E008")

    assert isinstance(message, Error)
    assert message.msg.startswith("No call can be answered: ") and message.msg.endswith(text)


def test_e012_a_bus_that_cannot_carry_changes(postgresql: None, monkeypatch: pytest.MonkeyPatch) -> None:
    form = "MCP['BUS'] must be {'BACKEND': 'dotted.path', 'OPTIONS': {…}}, or the URL of a NATS server."
    subject = "The channel of MCP['BUS'] must be a subject of NATS: letters, digits, - and _, in parts divided by dots."
    name = "The channel of MCP['BUS'] must be a name of at most 48 bytes."
    misfit = "The OPTIONS of MCP['BUS'] do not fit mcp_django.buses"
    wrong: list[tuple[Any, str]] = [
        *((value, form) for value in (
            {"OPTIONS": {}}, {"BACKEND": "x", "CONFIG": {}}, ["nats://localhost"], 3, {"BACKEND": None},
            {"BACKEND": "x", "OPTIONS": "nats://s3cret@localhost"},
        )),
        ({"BACKEND": "os.path.join"}, "MCP['BUS'] names os.path.join, which is no subclass of BaseBus."),
        ({"BACKEND": "nowhere.Bus"}, "MCP['BUS'] cannot be used: No module named 'nowhere'."),
        (bus_of("NoBus"), "MCP['BUS'] cannot be used: Module \"mcp_django.buses\" does not define a \"NoBus\" "
         "attribute/class."),
        (bus_of("NATSBus"), f"{misfit}.NATSBus: missing a required argument: 'servers'."),
        (bus_of("ChannelLayerBus", hosts=[]), f"{misfit}.ChannelLayerBus: got an unexpected keyword argument 'hosts'."),
        (bus_of("ChannelLayerBus", alias=["x"]), "MCP['BUS'] names ['x'], which is not in CHANNEL_LAYERS."),
        (bus_of("ChannelLayerBus", alias="nowhere"), "MCP['BUS'] names 'nowhere', which is not in CHANNEL_LAYERS."),
        ("localhost:4222",
         "URL 1 in MCP['BUS'] begins with neither nats:// nor tls://. Write nats://host:4222, "
         "tls://user:password@host:4222 or nats://token@host:4222, and other characters in a user, password or "
         "token as %40."),
        *((bus_of("NATSBus", servers="nats://localhost", channel=text), subject)
          for text in ("", "two words", "a..b", ".a", "a.", "mcp.*", "mcp.>", "$SYS.a", "a\r\nPUB b 1")),
        *((bus_of("PostgreSQLBus", database="other", channel=text), name) for text in ("", "c" * 49, "ü" * 25)),
        *((bus_of("PostgreSQLBus", database=value), f"The database of MCP['BUS'] is {value!r}, {NO_DATABASE}")
          for value in (None, ["other"], "default")),
        (bus_of("PostgreSQLBus", database="nowhere"), f"The database of MCP['BUS'] is 'nowhere', {NO_DATABASE}"),
        (bus_of("PostgreSQLBus", database="other", listen_database="nowhere"),
         f"The listen_database of MCP['BUS'] is 'nowhere', {NO_DATABASE}"),
    ]  # fmt: skip
    for value, text in wrong:
        with override_settings(MCP={"BUS": value}, CHANNEL_LAYERS={"default": {"BACKEND": "x"}}):
            assert of("E012") == [Error(text, id="mcp_django.E012")], value
    with override_settings(MCP={"BUS": bus_of("PostgreSQLBus", database="other", channel="c" * 48)}):
        assert of("E012") == []
    layers = [
        ({"BACKEND": "nowhere.Layer"},
         "The layer nowhere.Layer of CHANNEL_LAYERS cannot be used: No module named 'nowhere'."),
        ({}, "CHANNEL_LAYERS has no layer with a BACKEND that could carry changes."),
        ({"BACKEND": PUBSUB, "CONFIG": {"hosts": "redis://:s3cret@one"}},
         f"The layer {PUBSUB} of CHANNEL_LAYERS cannot be made with its CONFIG (ValueError)."),
    ]  # fmt: skip
    for layer, text in layers:
        with override_settings(MCP={}, CHANNEL_LAYERS={"default": layer}):
            [message] = of("E012")
        assert message.msg == text
    # The packages that they need are not there.
    monkeypatch.setattr(buses, "find_spec", lambda name: None)
    needing = {
        "NATSBus": "nats-py: python -m pip install 'django-admin-mcp-server[nats]'",
        "PostgreSQLBus": "psycopg 3: python -m pip install 'psycopg[binary,pool]'",
    }
    for name, needed in needing.items():
        with override_settings(MCP={"BUS": bus_of(name)}):
            [message] = of("E012")
        assert message.msg == f"The {name} of MCP['BUS'] needs {needed}"


def test_e001_says_what_has_taken_the_place_of_a_setting_of_the_bus() -> None:
    with override_settings(MCP={"PUSH_DATABASE": "default"}):
        [message] = of("E001")

    assert message.hint == "The option 'database' of MCP['BUS'] has taken its place."


@override_settings(MCP={"THROTTLES": {"user": {"calls": "10/month"}, "team": {}}})
def test_e020_every_wrong_limit_is_told() -> None:
    assert len(of("E020")) == 2


def test_e030_another_distribution_has_the_same_import_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "mcp_django-0.2.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: mcp-django\nVersion: 0.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    [message] = of("E030")

    assert isinstance(message, Error) and message.msg.startswith("The distribution mcp-django is installed too.")
    assert "pip uninstall mcp-django django-admin-mcp-server" in str(message.hint)


@pytest.mark.parametrize(("app", "second", "last"), [(app, *ends) for app, ends in bus._BEFORE_RELEASE.items()])
def test_e034_a_database_from_before_the_first_release_that_was_not_migrated_to_the_end(
    db: None, app: str, second: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[str]:
        return [str(one.hint) for one in check_databases(None, databases=["default"]) if one.id == "mcp_django.E034"]

    new = found()
    tables = bus._first_tables(app, "default")
    assert tables and tables <= set(connection.introspection.table_names())
    monkeypatch.setattr(bus, "_first_tables", lambda *_: {*tables, "made_later"})
    first = [hint for hint in found() if last in hint]
    monkeypatch.undo()
    monkeypatch.setattr(router, "allow_migrate", lambda *_, **__: False)
    assert bus._first_tables(app, "default") == set()
    MigrationRecorder(connection).record_applied(app, second)
    begun = found()
    MigrationRecorder(connection).record_applied(app, last)

    assert first == begun and len(begun) == 1
    assert new == found() == []
