"""Registration: a site accepts declarations, or refuses them with the remedy in the text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from django.contrib.admin.exceptions import AlreadyRegistered, NotRegistered
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.http import HttpRequest
from pydantic import BaseModel, Field

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import MCPSite, ModelMCP, register, resource, tool
from mcp_django.models import Tool
from tests.support.asking import DirectPeer
from tests.support.data import make_flights


@pytest.fixture
def own() -> MCPSite:
    """A site for this test alone."""
    return MCPSite("own")


# Models.


def test_register_as_a_decorator(own: MCPSite) -> None:
    @register(Flight, Airline, site=own)
    class Shown(ModelMCP):
        description = "shown"

    assert isinstance(own.models["flights.flight"], Shown)
    assert isinstance(own.models["flights.airline"], Shown)


def test_registering_a_model_twice_an_abstract_one_or_none(own: MCPSite) -> None:
    class Abstract(models.Model):
        class Meta:
            abstract = True
            app_label = "shop"

    own.register(Flight)

    with pytest.raises(AlreadyRegistered, match=r"flights.Flight is already registered"):
        own.register([Airline, Flight])
    with pytest.raises(ImproperlyConfigured, match="is abstract or swapped"):
        own.register(Abstract)
    with pytest.raises(ImproperlyConfigured, match="@register needs at least one model"):
        register(site=own)(ModelMCP)


def test_unregistering_leaves_the_bridge_and_works_once(own: MCPSite) -> None:
    own.register([Flight, Airline], description="mine")
    before = own.models["flights.flight"]

    own.unregister([Flight, Airline])

    assert not before.bridged and own.models["flights.flight"].bridged
    assert not own.is_registered(Flight)
    with pytest.raises(NotRegistered, match=r"flights.Flight is not registered"):
        own.unregister(Flight)


def test_a_list_with_a_model_that_is_refused_leaves_the_site_as_it_was(own: MCPSite) -> None:
    own.register(Flight)
    before = own.models["flights.flight"]

    with pytest.raises(AlreadyRegistered):
        own.register([Airline, Flight])
    with pytest.raises(AlreadyRegistered):
        own.register([Airline, Airline])
    with pytest.raises(ImproperlyConfigured):
        own.register([Airline, Tool])
    with pytest.raises(NotRegistered):
        own.unregister([Flight, Airline])

    assert not own.is_registered(Airline) and own.models["flights.flight"] is before


# Tools.


def _undocumented(request: HttpRequest) -> str:
    return ""


def _untyped(request: HttpRequest, seats) -> str:  # type: ignore[no-untyped-def]
    """Untyped."""
    return ""


def _starred(request: HttpRequest, *seats: int) -> str:
    """Starred."""
    return ""


def _keywords(request: HttpRequest, **seats: int) -> str:
    """Keywords."""
    return ""


def _without_request() -> str:
    """Without request."""
    return ""


class Node(BaseModel):
    children: list[Node] = []


def _recursive(request: HttpRequest, node: Node) -> str:
    """Recursive."""
    return ""


def _recursive_result(request: HttpRequest) -> Node:
    """Recursive."""
    return Node()


def _list_of_models(request: HttpRequest, which: list[Flight] = []) -> str:  # noqa: B006
    """Many rows of a model."""
    return ""


def _two_models(request: HttpRequest, thing: Flight | Airline) -> str:
    """Two models."""
    return ""


class Stranger:
    pass


def _strange(request: HttpRequest, thing: Stranger) -> str:
    """Strange."""
    return ""


def _strange_result(request: HttpRequest) -> Stranger:
    """Strange."""
    return Stranger()


def _with_a_value_first(seats: Annotated[int, "Seats."], row: int = 1) -> str:
    """Without a request."""
    return ""


def _with_a_choice_first(cabin: Literal["economy", "first"]) -> str:
    """Without a request."""
    return ""


REFUSED: list[tuple[Any, str]] = [
    (_undocumented, "needs a docstring"),
    (_untyped, "The parameter seats of the tool _untyped needs an annotation"),
    (_starred, "The parameter seats of the tool _starred needs an annotation"),
    (_keywords, "The parameter seats of the tool _keywords needs an annotation"),
    (_without_request, "must take the request as its first parameter"),
    (_with_a_value_first, "must take the request as its first parameter, before seats"),
    (_with_a_choice_first, "must take the request as its first parameter, before cabin"),
    (_recursive, "The type Node of a tool refers to itself"),
    (_recursive_result, "The type Node of a tool refers to itself"),
    (_two_models, "may be one model, or one model or None"),
    (_list_of_models, "may be one model, or one model or None"),
    (_strange, "_strange"),
    (_strange_result, "_strange_result"),
]  # fmt: skip


def test_a_function_that_can_be_no_tool(own: MCPSite) -> None:
    for function, text in REFUSED:
        with pytest.raises(ImproperlyConfigured, match=text):
            tool(site=own)(function)
        assert function.__name__ not in own.tools


def test_a_name_that_clients_refuse_or_that_another_tool_or_a_query_tool_has(own: MCPSite) -> None:
    def act(request: HttpRequest) -> None:
        """Act."""

    for name in ("tool\n", "my tool", "prüfen!", "a.b", "x" * 65, "a/b"):
        with pytest.raises(ImproperlyConfigured, match="1 to 64 letters, digits, _ and -"):
            tool(name=name, site=own)(act)

    tool(site=own)(act)

    for name in ("act", "describe_models", "find_records", "get_record", "aggregate_records"):
        with pytest.raises(ImproperlyConfigured, match=f"Two tools are named {name}"):
            tool(name=name, site=own)(act)


def test_a_decorated_function_stays_a_function(own: MCPSite) -> None:
    @tool(site=own)
    def double(request: HttpRequest, number: int) -> int:
        """Double."""
        return number * 2

    assert double(HttpRequest(), 4) == 8


def test_annotations_in_strings_are_read(own: MCPSite) -> None:
    def pick(
        request: HttpRequest, airport: Annotated[Airport | None, Field(description="One.")], way: Literal["a"] = "a"
    ) -> str:
        """Pick."""
        return ""

    tool(site=own)(pick)

    assert set(own.tools["pick"].get_input_schema(None)["properties"]) == {"airport", "way"}  # type: ignore[arg-type]


# Resources.


def test_a_resource_of_our_own_scheme_and_two_of_one_uri(own: MCPSite) -> None:
    resource("x://y", site=own)(lambda request: "")

    with pytest.raises(ImproperlyConfigured, match="Two resources have the URI x://y"):
        resource("x://y", site=own)(lambda request: "")
    with pytest.raises(ImproperlyConfigured, match="the scheme db is reserved for models"):
        resource("db://flights/about", site=own)(lambda request: "")


# Subclasses.


def test_a_site_shows_the_admin_site_that_it_names(db: None) -> None:
    from django.contrib import admin

    class OwnAdmin(admin.AdminSite):
        pass

    inner = OwnAdmin("inner")
    inner.register(Airline)

    make_flights(1)
    peer = DirectPeer(User.objects.create_superuser("root"), site=MCPSite("inner", admin_site=inner))

    assert list(peer.call("describe_models")["structuredContent"]["models"]) == ["flights.airline"]


def test_the_url_of_a_site(own: MCPSite) -> None:
    patterns, app_name, namespace = own.urls

    assert (app_name, namespace) == ("mcp_django", "own")
    assert [pattern.name for pattern in patterns if getattr(pattern, "name", None)]
