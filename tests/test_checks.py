"""System checks: each id, what it says and what would silence it."""

from __future__ import annotations

from typing import Any

import django
import pytest
from django.conf import settings
from django.contrib import admin
from django.core import mail
from django.core.checks import CheckMessage, Error, Warning, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections, models
from django.http import HttpRequest
from django.test import override_settings
from django.utils.version import get_version
from rest_framework import serializers

from demo_project.flights.models import Airline, Disruption, Flight, Plane
from mcp_django import ModelMCP, site
from mcp_django.checks import check_databases, check_settings, check_sites
from mcp_django.conf import get_conf, load
from mcp_django.events import bus
from mcp_django.sites import all_sites
from tests.shop.models import Apikey, Book, CheapProduct, Part, Product, Tag, Unwatched
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin


def messages() -> list[CheckMessage]:
    """What is found without a database, of which Django 6.0 and later name all where a tag is given."""
    return run_checks(tags=["mcp_django"], databases=[])


def of(number: str) -> list[CheckMessage]:
    return [message for message in messages() if message.id == f"mcp_django.{number}"]


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
    assert load({}).MAX_ROWS == 100
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

    [message] = of("E003")

    assert message.msg in (
        "The action shop_x.a.act has the same tool name as the action shop.x_a.act: shop_x_a_act.",
        "The action shop.x_a.act has the same tool name as the action shop_x.a.act: shop_x_a_act.",
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
    ("attribute", "other"), [("fields", "flights"), ("exclude", "flights__id"), ("filter_fields", "flights__qqq")]
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


def test_w009_a_moment_without_an_index(declared: Declared) -> None:
    class MailBox(models.Model):  # noqa: DJ008
        read_at = models.DateTimeField()

        class Meta:
            app_label = "shop"

    declared.model(MailBox, fields="__all__", last_modified_field="read_at", annotations={"priority": 1})

    assert of("W009") == [
        Warning(
            "No index of shop.mailbox begins with 'read_at': clients are not told when the collection last "
            "changed, since finding that out would read the whole table.",
            hint='Add models.Index(fields=["read_at"], name=...) to Meta.indexes.',
            id="mcp_django.W009",
        )
    ]
    assert of("E010") == of("E011") == []


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


def test_w001_a_database_without_autocommit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES, "default", {**settings.DATABASES["default"], "AUTOCOMMIT": False})

    found = check_settings(None)

    [message] = [message for message in found if message.id == "mcp_django.W001"]
    assert isinstance(message, Warning)
    assert message.msg.startswith("Changes on the database 'default' are pushed only where they happen in atomic")


@override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tenants.middleware.TenantMiddleware"])
def test_w002_middleware_that_sockets_would_skip() -> None:
    [message] = of("W002")

    assert isinstance(message, Warning)
    assert "tenants.middleware.TenantMiddleware may choose a tenant" in message.msg


@override_settings(
    MIDDLEWARE=[*settings.MIDDLEWARE, "tenants.middleware.TenantMiddleware"], MCP={"BYPASS_MIDDLEWARE": True}
)
def test_w002_is_silent_where_the_project_says_that_it_does_not_matter() -> None:
    assert messages() == []


def test_w005_a_secret_that_is_named(declared: Declared) -> None:
    class ProductMCP(ModelMCP):
        fields = ["name", "api_key", "price"]

    declared.model(Product, ProductMCP)

    assert messages() == [
        Warning(
            "ProductMCP.fields names 'api_key' of shop.product, which looks like a secret: agents may read it.",
            hint="Leave it out. If it is not a secret, add 'mcp_django.W005' to SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W005",
        )
    ]


@pytest.mark.parametrize("options", [
    {"fields": "__all__"},
    {"fields": ["name"]},
    {"fields": ["name", "api_key"], "exclude": ["api_key"]},
    {"fields": None},
])  # fmt: skip
def test_w005_is_silent_where_the_secret_stays_hidden(declared: Declared, options: dict[str, Any]) -> None:
    declared.admin(Product, type("ProductAdmin", (Admin,), {"list_display": ["name", "api_key"]}))
    declared.model(Product, **options)

    assert messages() == []


def _own_rows(self: Any, request: HttpRequest) -> Any:
    return Flight.objects.none()


@override_settings(MCP={"TENANT_FIELDS": ["tenant", "carrier"]})
def test_w006_a_model_of_tenants_that_shows_every_row(declared: Declared) -> None:
    declared.admin(Flight, type("FlightAdmin", (Admin,), {}))

    # In the order of the registry, which depends on what was registered before.
    other, message = sorted(messages(), key=lambda found: found.msg)

    assert message == Warning(
        "flights.flight has the field 'carrier' of MCP['TENANT_FIELDS'], and every user who may view the model can "
        "read all of its rows.",
        hint="Override get_queryset(request) in its ModelMCP or ModelAdmin. If something else keeps the tenants apart, "
        "add 'mcp_django.W006' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W006",
    )
    # Its key is what tells tenants apart.
    assert other.id == "mcp_django.W006" and other.msg.startswith("flights.airline has the field 'carrier'")


@pytest.mark.parametrize("name", ["origin", "origin_id"])
def test_w006_takes_a_foreign_key_by_its_column_too(declared: Declared, name: str) -> None:
    with override_settings(MCP={"TENANT_FIELDS": (name,)}):
        found = of("W006")

    # The demo's FlightAdmin says which flights there are.
    assert [message.msg.partition(" ")[0] for message in found] == ["flights.weather"]


@override_settings(MCP={"TENANT_FIELDS": ["flight"]})
@pytest.mark.parametrize("where", ["admin", "base of the admin", "mcp"])
def test_w006_is_silent_where_somebody_says_which_rows(declared: Declared, where: str) -> None:
    before = of("W006")
    scoped = type("Scoped", (), {"get_queryset": _own_rows})
    if where == "mcp":
        declared.model(Disruption, type("DisruptionMCP", (scoped, ModelMCP), {}))
    elif where == "admin":
        declared.admin(Disruption, type("DisruptionAdmin", (Admin,), {"get_queryset": _own_rows}))
    else:
        declared.admin(Disruption, type("DisruptionAdmin", (scoped, Admin), {}))

    assert [message.msg.partition(" ")[0] for message in before] == ["flights.disruption"]
    assert of("W006") == []


def test_w007_an_order_without_an_index(declared: Declared) -> None:
    declared.model(Flight, fields=["status"], ordering=["-arrival_delay", "number"])

    assert messages() == [
        Warning(
            "No index of flights.flight begins with its order (-arrival_delay, number): to find the first rows, the "
            "database sorts the whole table.",
            hint="This does not matter for a small table. Otherwise add "
            'models.Index(fields=["-arrival_delay", "number", "id"], name=...) to Meta.indexes, or set ordering in a '
            "ModelMCP to columns that have one. If all such tables are small, add 'mcp_django.W007' to "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W007",
        )
    ]


def test_w007_asks_the_mcp_then_the_admin_then_the_model(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flight._meta, "ordering", ["status"])

    def told() -> list[str]:
        return [message.msg.partition("(")[2].partition(")")[0] for message in of("W007")]

    declared.admin(Flight, type("FlightAdmin", (Admin,), {}))
    by_model = told()
    declared.admin(Flight, type("FlightAdmin", (Admin,), {"ordering": ["number"]}))
    by_admin = told()
    declared.model(Flight, type("FlightMCP", (ModelMCP,), {"ordering": ["distance"]}))
    by_mcp = told()

    assert (by_model, by_admin, by_mcp) == (["status"], ["number"], ["distance"])


@pytest.mark.parametrize("where", ["admin", "mcp"])
def test_w007_is_silent_where_only_a_request_can_tell_the_order(declared: Declared, where: str) -> None:
    def get_ordering(self: Any, request: HttpRequest) -> list[str]:
        return ["departs_at"]

    admin_class = type("FlightAdmin", (Admin,), {"ordering": ["status"]})
    if where == "admin":
        declared.admin(Flight, type("Other", (admin_class,), {"get_ordering": get_ordering}))
    else:
        declared.admin(Flight, admin_class)
        declared.model(Flight, type("FlightMCP", (ModelMCP,), {"get_ordering": get_ordering}))

    assert of("W007") == []


def test_w007_is_silent_for_a_table_that_django_does_not_make(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.model(Flight, ordering=["status"])
    before = of("W007")
    monkeypatch.setattr(Flight._meta, "managed", False)

    assert len(before) == 1
    assert of("W007") == []


@pytest.mark.parametrize("ordering", [["departs_at"], ["-departs_at", "id"], ["pk"], ["carrier__name", "status"], []])
def test_w007_is_silent_where_an_index_answers_or_the_order_is_left_out(
    declared: Declared, ordering: list[str]
) -> None:
    declared.model(Flight, ordering=ordering)

    assert of("W007") == []


@override_settings(MCP={"NOPE": 1})
def test_sites_are_not_looked_at_while_the_settings_cannot_be_read() -> None:
    assert check_sites(None) == []


def test_w003_a_database_without_time_zones(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = check_databases(None, databases=["default"])
    monkeypatch.setattr(settings, "TIME_ZONE", "Nowhere/Nothing")

    found = check_databases(None, databases=["default"])

    assert before == []
    assert [message.id for message in found] == (["mcp_django.W003"] if connection.vendor == "mysql" else [])


def test_w008_a_database_that_knows_none_of_our_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    other = connections["other"]
    monkeypatch.setattr(other, "vendor", "oracle")
    monkeypatch.setattr(other, "display_name", "Oracle")

    by_default = of("W008")
    with override_settings(MCP={"READ_ONLY_TRANSACTIONS": True}):
        both = of("W008")
    with override_settings(MCP={"STATEMENT_SECONDS": 0}):
        neither = of("W008")

    hint = "Limit its user in the database itself, or expose no model that is stored there."
    known = "cannot be enforced on the database 'other', which is Oracle."
    assert by_default == [Warning(f"STATEMENT_SECONDS {known}", hint=hint, id="mcp_django.W008")]
    assert both == [Warning(f"STATEMENT_SECONDS and READ_ONLY_TRANSACTIONS {known}", hint=hint, id="mcp_django.W008")]
    assert neither == []


IN_MEMORY = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
CORE = "channels_redis.core.RedisChannelLayer"
PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"


def alone(reason: str) -> Warning:
    return Warning(
        f"Changes are pushed only within one process, and {reason}: a client that listens to one process does not "
        "learn what is saved in another.",
        hint=f"Name Redis in CHANNEL_LAYERS ({PUBSUB}), or a PostgreSQL database in MCP['PUSH_DATABASE']. If one "
        "process serves the site and nothing else saves, add 'mcp_django.W011' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W011",
    )


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no tests run: by what they leave to be seen, they are known."""
    monkeypatch.delattr(mail, "outbox")
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)


@pytest.mark.parametrize("layers", [{}, IN_MEMORY, {"default": {"BACKEND": PUBSUB}, "mcp": IN_MEMORY["default"]}])
def test_w011_several_processes_that_hear_nothing_of_each_other(deployed: None, layers: Any) -> None:
    with override_settings(DEBUG=False, CHANNEL_LAYERS=layers):
        assert messages() == [alone("DEBUG is off")]


@override_settings(DEBUG=True, CHANNEL_LAYERS={})
def test_w011_several_workers(deployed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")

    assert messages() == [alone("WEB_CONCURRENCY is 4")]


@override_settings(CHANNEL_LAYERS={})
def test_w011_is_silent_in_development_under_wsgi_and_where_nobody_watches(
    deployed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with override_settings(DEBUG=True):
        assert of("W011") == []
    with override_settings(DEBUG=False, ASGI_APPLICATION=None):
        assert of("W011") == []
    with override_settings(DEBUG=False), monkeypatch.context() as nobody:
        for model_mcp in (model for site in all_sites() for model in site.models.values()):
            nobody.setattr(model_mcp, "watch", False)
        assert of("W011") == []
    with override_settings(DEBUG=False, SILENCED_SYSTEM_CHECKS=["mcp_django.W011"]):
        assert [message.is_silenced() for message in of("W011")] == [True]


def test_w011_is_silent_with_a_broker(deployed: None) -> None:
    with override_settings(DEBUG=False, CHANNEL_LAYERS={"default": {"BACKEND": PUBSUB}}):
        assert messages() == []


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": CORE}})
def test_w012_a_layer_that_drops_what_is_too_much() -> None:
    assert messages() == [
        Warning(
            f"Changes go from process to process through {CORE}, which drops messages above its capacity: "
            "subscribers then learn of the change only some time later.",
            hint=f'Add a layer for these changes: CHANNEL_LAYERS["mcp"] with the same hosts and {PUBSUB}, which has '
            "no capacity.",
            id="mcp_django.W012",
        )
    ]


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": CORE}, "mcp": {"BACKEND": PUBSUB}})
def test_w012_is_silent_where_the_hosts_layer_is_not_ours() -> None:
    assert messages() == []


@pytest.mark.parametrize("version", [(6, 2, 0, "alpha", 1), (2028, 0, 0, "final", 0)])
def test_w013_a_django_that_nobody_tested_with(version: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django, "VERSION", version)

    assert messages() == [
        Warning(
            f"Django {get_version(version)} is newer than 6.1, the newest that this mcp_django was tested with.",
            hint="Look for a newer mcp_django. If there is none and your own tests pass, add 'mcp_django.W013' to "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W013",
        )
    ]


@pytest.mark.parametrize("version", [(5, 2, 19, "final", 0), (6, 1, 99, "final", 0)])
def test_w013_is_silent_for_each_patch_of_what_was_tested(
    version: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(django, "VERSION", version)

    assert messages() == []
