"""Warnings of the system checks about models, databases and versions: what each says, and what would silence it."""

from __future__ import annotations

from typing import Any

import django
import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.checks import Warning, run_checks
from django.db import connection, connections, models
from django.http import HttpRequest
from django.test import override_settings
from django.utils.version import get_version

from demo_project.flights.models import Airport, Disruption, Flight
from mcp_django import MCPSite, ModelMCP, site
from mcp_django.checks.bus import check_databases
from mcp_django.checks.settings import check_settings
from mcp_django.checks.sites import check_sites
from tests.checks.conftest import Admin, messages, of
from tests.shop.models import Product
from tests.support.declared import Declared
from tests.transports import tenancy


def test_w009_a_moment_without_an_index(declared: Declared) -> None:
    class MailBox(models.Model):  # noqa: DJ008
        read_at = models.DateTimeField()

        class Meta:
            app_label = "shop"

    declared.model(MailBox, fields="__all__", last_modified_field="read_at", annotations={"priority": 1})

    assert of("W009") == [
        Warning(
            "No index of shop.mailbox begins with 'read_at': clients cannot see when the collection last "
            "changed, since finding that out would read the whole table.",
            hint='Add models.Index(fields=["read_at"], name=...) to Meta.indexes.',
            id="mcp_django.W009",
        )
    ]
    assert of("E010") == of("E011") == []


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
    assert message.msg.endswith(
        "gRPC, stdio, HTTP+SSE, push and tasks are refused, but for the operations of an API that is exposed."
    )
    with override_settings(MCP={"BYPASS_MIDDLEWARE": True}):
        assert messages() == []


@override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "django.middleware.csp.ContentSecurityPolicyMiddleware"])
def test_w002_is_silent_for_middleware_that_serves_browsers() -> None:
    assert of("W002") == []


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


def test_w005_a_secret_among_extra_fields_and_none_where_the_secret_stays_hidden(declared: Declared) -> None:
    listing = type("ProductAdmin", (Admin,), {"list_display": ["name", "api_key"]})

    declared.model(Product, extra_fields=["api_key"])
    [message] = of("W005")
    declared.close()
    assert message.msg.startswith("ProductMCP.extra_fields names 'api_key' of shop.product")
    hidden: list[dict[str, Any]] = [
        {"fields": "__all__"}, {"fields": ["name"]}, {"fields": ["name", "api_key"], "exclude": ["api_key"]},
        {"fields": None},
    ]  # fmt: skip
    for options in hidden:
        declared.admin(Product, listing)
        declared.model(Product, **options)
        assert messages() == [], options
        declared.close()


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


def test_w006_takes_a_foreign_key_by_its_column_too() -> None:
    for name in ("origin_id", "origin"):
        with override_settings(MCP={"TENANT_FIELDS": (name,)}):
            found = of("W006")
        # The demo's FlightAdmin says which flights there are.
        assert [message.msg.partition(" ")[0] for message in found] == ["flights.weather"], name


@override_settings(MCP={"TENANT_FIELDS": ["flight"]})
def test_w006_is_silent_where_somebody_says_which_rows(declared: Declared) -> None:
    scoped = type("Scoped", (), {"get_queryset": _own_rows})
    unscoped = type("DisruptionAdmin", (Admin,), {})

    def told() -> list[str]:
        return [message.msg.partition(" ")[0] for message in of("W006")]

    for by_admin in (
        type("DisruptionAdmin", (Admin,), {"get_queryset": _own_rows}), type("DisruptionAdmin", (scoped, Admin), {}),
    ):  # fmt: skip
        declared.admin(Disruption, unscoped)
        assert told() == ["flights.disruption"]
        declared.admin(Disruption, by_admin)
        assert told() == []
    declared.admin(Disruption, unscoped)
    declared.model(Disruption, type("DisruptionMCP", (scoped, ModelMCP), {}))
    assert told() == []


def test_w007_an_order_without_an_index(declared: Declared) -> None:
    declared.model(Flight, fields=["status"], ordering=["-arrival_delay", "number"])

    assert messages() == [
        Warning(
            "No index begins with the order of flights.flight (-arrival_delay, number): to find the first rows, the "
            "database sorts the whole table.",
            hint="This does not matter for small tables. Otherwise add "
            'models.Index(fields=["-arrival_delay", "number", "id"], name=...) to Meta.indexes, or set ordering in a '
            "ModelMCP to columns that have one. If all such tables are small, add 'mcp_django.W007' to "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W007",
        )
    ]


def test_w007_and_w002_speak_once(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    for model, name in {Flight: "status", Airport: "name", Disruption: "severity", Product: "stock"}.items():
        declared.model(model, fields="__all__", ordering=[name])
    other = MCPSite("other")
    other.register(Airport, fields="__all__", ordering=["name"])
    other._has_urls = True
    monkeypatch.setattr("mcp_django.checks.models._MOST_NAMED", 3)

    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tenants.middleware.TenantMiddleware"]):
        told = [one.msg for one in messages() if one.id in ("mcp_django.W002", "mcp_django.W007")]

    assert len(told) == 2 and not any("\n" in one for one in told)
    assert told[1].startswith(
        "No index begins with the order of flights.airport (name), flights.disruption (severity), flights.flight "
        "(status) and 1 more: "
    )


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


def test_w007_is_silent_where_only_a_request_can_tell_the_order(declared: Declared) -> None:
    def get_ordering(self: Any, request: HttpRequest) -> list[str]:
        return ["departs_at"]

    admin_class = type("FlightAdmin", (Admin,), {"ordering": ["status"]})
    declared.admin(Flight, type("Other", (admin_class,), {"get_ordering": get_ordering}))
    by_admin = of("W007")
    declared.admin(Flight, admin_class)
    declared.model(Flight, type("FlightMCP", (ModelMCP,), {"get_ordering": get_ordering}))

    assert by_admin == of("W007") == []


def test_w007_is_silent_where_an_index_answers_the_order_is_left_out_or_django_does_not_make_the_table(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [["departs_at"], ["-departs_at", "id"], ["pk"], ["carrier__name", "status"], []]
    for ordering in orders:
        declared.model(Flight, ordering=ordering)
        assert of("W007") == [], ordering
        declared.close()
    declared.model(Flight, ordering=["status"])
    assert len(of("W007")) == 1
    monkeypatch.setattr(Flight._meta, "managed", False)
    assert of("W007") == []
    # And for models of installed packages.
    declared.admin(Group, type("GroupAdmin", (Admin,), {"ordering": ["-name", "pk"]}))
    declared.admin(User, type("UserAdmin", (Admin,), {"ordering": ["first_name"]}))
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


def test_w013_a_django_that_nobody_tested_with_and_no_patch_of_what_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ((6, 2, 0, "alpha", 1), (2028, 0, 0, "final", 0)):
        monkeypatch.setattr(django, "VERSION", version)
        assert messages() == [
            Warning(
                f"Django {get_version(version)} is newer than 6.1, the newest that this mcp_django was tested with.",
                hint="Look for a newer mcp_django. If there is none and your own tests pass, add 'mcp_django.W013' to "
                "SILENCED_SYSTEM_CHECKS.",
                id="mcp_django.W013",
            )
        ]
    for version in ((5, 2, 19, "final", 0), (6, 1, 99, "final", 0)):
        monkeypatch.setattr(django, "VERSION", version)
        assert messages() == []


def test_w014_a_model_of_the_admin_that_cannot_be_exposed(declared: Declared) -> None:
    class Couple(models.Model):  # noqa: DJ008
        pk = models.CompositePrimaryKey("left", "right")
        left = models.IntegerField()
        right = models.IntegerField()

        class Meta:
            app_label = "shop"

    class Unknown(models.Field[Any, Any]):
        def get_internal_type(self) -> str:
            return "CharField"

    class Odd(models.Model):  # noqa: DJ008
        number = Unknown(primary_key=True)

        class Meta:
            app_label = "shop"

    for model in (Couple, Odd):
        declared.admin(model, type("SomeAdmin", (Admin,), {}))

    assert of("E004") == of("E007") == []
    found = {message.msg: message.hint for message in of("W014")}
    ends = "so agents do not see the model, which the admin shows."
    assert found == {
        f"shop.couple has a composite primary key, which has no URI yet, {ends}": (
            "There is no cure yet; add 'mcp_django.W014' to SILENCED_SYSTEM_CHECKS."
        ),
        f"The primary key of shop.odd cannot be read, {ends}": (
            "Name number in extra_fields of a ModelMCP, or its class in MCP['FIELD_KINDS'], if agents may read it; "
            "otherwise add 'mcp_django.W014' to SILENCED_SYSTEM_CHECKS."
        ),
    }


def test_w019_a_resource_that_watches_a_model_that_nobody_can_watch(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.models["flights.airport"], "watch", False)
    declared.resource("shop://both", lambda request: "", name="both", watch=[Session, Airport, Flight])

    found = of("W019")

    assert [message.msg for message in found] == [
        f"The resource shop://both is declared with watch= for {model}: its subscribers are not notified of changes of "
        "that model."
        for model in ("sessions.Session, which agents never see", "flights.Airport, which has watch = False")
    ]


def test_w020_a_cache_that_was_chosen_and_does_not_count_for_all_processes() -> None:
    local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    with override_settings(CACHES={"default": local, "mine": local}, MCP={"THROTTLE_CACHE": "mine"}):
        [message] = of("W020")
    with override_settings(CACHES={"default": local}):
        silent = of("W020")

    assert "names the cache 'mine'" in message.msg and "The database counts." in message.msg
    assert silent == []


def test_w021_a_proxy_whose_address_all_callers_have() -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 1), ({"TRUSTED_PROXIES": 1}, 0), ({"THROTTLES": {"address": {"failures": None}}}, 0),
        ({"THROTTLES": {"address": {"failures": None, "calls": "9/min"}}}, 1),
    ]  # fmt: skip
    for values, count in cases:
        with override_settings(MCP=values, SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https")):
            found = of("W021")
        with override_settings(MCP=values):
            assert of("W021") == [], values
        assert len(found) == count, values
        assert all(
            "SECURE_PROXY_SSL_HEADER says that there is a proxy in front of the server" in one.msg for one in found
        )


def test_e032_tenants_by_middleware_alone_are_no_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = type("TenantMainMiddleware", (), {"__module__": "django_tenants.middleware.main"})
    monkeypatch.setattr(tenancy, "Heir", type("Heir", (parent,), {}), raising=False)
    middleware = [*settings.MIDDLEWARE, "tests.transports.tenancy.Heir"]

    with override_settings(MIDDLEWARE=middleware):
        found = run_checks(tags=["mcp_django"], include_deployment_checks=True, databases=[])
        plain = run_checks(tags=["mcp_django"], databases=[])
    with override_settings(MIDDLEWARE=middleware, MCP={"BYPASS_MIDDLEWARE": True}):
        bypassed = run_checks(tags=["mcp_django"], include_deployment_checks=True, databases=[])

    assert [one.id for one in found if one.is_serious()] == ["mcp_django.E032"]
    assert [one.id for one in plain] == ["mcp_django.W002"]
    assert "mcp_django.E032" not in [one.id for one in bypassed]


def test_w028_the_proxies_of_http_are_not_those_of_grpc() -> None:
    counts = {}
    for name, values in {
        "neither": {}, "http alone": {"TRUSTED_PROXIES": 1},
        "none": {"TRUSTED_PROXIES": 1, "GRPC_TRUSTED_PROXIES": 0},
        "both": {"TRUSTED_PROXIES": 1, "GRPC_TRUSTED_PROXIES": 1},
    }.items():  # fmt: skip
        with override_settings(MCP=values):
            counts[name] = len(of("W028"))

    assert counts == {"neither": 0, "http alone": 1, "none": 0, "both": 0}


def test_w029_alternatives_at_the_top_of_a_schema(declared: Declared) -> None:
    def reach(request: HttpRequest, arguments: dict[str, Any]) -> None:
        """Reach."""

    either = [{"required": ["a"]}, {"required": ["b"]}]
    inside = {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}
    found = {}
    for name, more in {"plain": inside, "any": {"anyOf": either}, "one": {"oneOf": either}}.items():
        declared.tool(reach, name=name, input_schema={"type": "object", **more})
        found[name] = [one.msg for one in of("W029")]
        declared.close()

    assert found == {
        "plain": [],
        "any": ["The input_schema of the tool any has anyOf at its top, which some providers of models refuse: their "
                "clients lose the tool."],
        "one": ["The input_schema of the tool one has oneOf at its top, which some providers of models refuse: their "
                "clients lose the tool."],
    }  # fmt: skip


def test_w036_a_tool_that_returns_rows_which_nobody_sees(declared: Declared) -> None:
    declared.model(Airport, rows=False, fields="__all__")
    for number, annotation in enumerate((Session, list[Session], Airport | None, Flight, list[Flight], dict[str, int])):

        def give(request: HttpRequest) -> Any:
            """Give."""

        give.__annotations__["return"] = annotation
        declared.tool(give, name=f"give_{number}")

    assert [message.msg for message in of("W035")] == [
        f"The tool give_{number} returns rows of {model}: every call is refused."
        for number, model in enumerate(
            ["sessions.Session, which agents never see"] * 2 + ["flights.Airport, which is shown in groups alone"]
        )
    ]
