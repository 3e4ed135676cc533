"""What a function cannot return says so when it is declared, in one sentence that names what it returns instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Manager, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, JsonResponse
from pydantic import BaseModel, ConfigDict, InstanceOf, PlainSerializer
from typing_extensions import TypedDict

from demo_project.flights.models import Airport, Flight
from mcp_django import resource, tool
from mcp_django.content import Text
from tests.support.asking import listed
from tests.support.declared import Declared


@dataclass
class Leg:
    number: int
    flight: Flight


@dataclass
class Trip:
    legs: list[Leg]


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    flight: Flight


class Named(TypedDict):
    flights: QuerySet[Flight]


class Unknown:
    pass


ALONE = (
    "return one model, one model or None, or a list or a queryset of one model; what holds other values names a row by "
    "its key, as row.pk."
)
ANYTHING = (
    "return a str, a content block, a model, a queryset, or what pydantic writes (numbers, lists, dicts, dataclasses, "
    "its own models)."
)
#: Annotation → what it says instead.
REFUSED: list[tuple[Any, str]] = [
    (dict[str, Flight], ALONE), (tuple[Flight, Airport], ALONE), (tuple[Flight], ALONE), (list[Flight | None], ALONE),
    (list[list[Flight]], ALONE), (list[QuerySet[Flight]], ALONE), (Flight | Airport, ALONE), (Flight | int, ALONE),
    (Flight | list[Flight], ALONE), (list[Flight | Airport], ALONE), (Leg, ALONE), (Trip, ALONE), (list[Leg], ALONE),
    (Loose, ALONE), (Named, ALONE), (type[Flight], ALONE),
    (Manager[Flight], "return a queryset, as its all() gives one."),
    (HttpResponse, "return its text, or a content block of mcp_django.content."),
    (JsonResponse | None, "return its text, or a content block of mcp_django.content."),
    (ModelForm, "return its cleaned_data, or the row that it saved."),
    (Unknown, ANYTHING), (list[Unknown], ANYTHING), (Callable[[], int], ANYTHING), (type[Unknown], ANYTHING),
]  # fmt: skip
#: Those that a resource refuses too: nothing else reads its annotations.
OF_RESOURCES = [one for one in REFUSED if one[1] != ANYTHING and one[0] not in (Leg, Trip, Loose, Named, list[Leg])]


def give(annotation: Any) -> Callable[..., Any]:
    def function(request: HttpRequest) -> Any:
        """Give."""

    function.__annotations__["return"] = annotation
    return function


def test_a_tool_names_what_it_returns_instead() -> None:
    for annotation, instead in REFUSED:
        with pytest.raises(ImproperlyConfigured) as refused:
            tool(give(annotation))

        text = str(refused.value)
        assert text.startswith("The tool function cannot return ") and text.endswith(f": {instead}"), text
        assert "\n" not in text


def test_a_resource_names_it_too() -> None:
    for annotation, instead in OF_RESOURCES:
        for uri in ("shop://given", "shop://given/{key}"):
            with pytest.raises(ImproperlyConfigured) as refused:
                resource(uri)(give(annotation))

            text = str(refused.value)
            assert text.startswith(f"The resource {uri} cannot return ") and text.endswith(f": {instead}"), text


def test_what_yields_rows_is_refused() -> None:
    def by_row(request: HttpRequest) -> Generator[Flight, None, None]:
        """Give."""
        yield Flight()

    async def late(request: HttpRequest) -> AsyncIterator[Flight]:
        """Give."""
        yield Flight()

    def iterator(request: HttpRequest) -> Iterator[Flight]:
        """Give."""
        return Flight.objects.iterator()

    def pages(request: HttpRequest) -> Iterable[list[Flight]]:
        """Give."""
        yield [Flight()]

    for function in (by_row, late, iterator, pages):
        with pytest.raises(ImproperlyConfigured) as refused:
            tool(function)

        assert str(refused.value) == (
            f"The tool {function.__name__} cannot yield rows of a model: return a list or a queryset of them."
        )


def test_what_says_how_it_is_written_is_no_row(admin: Any, declared: Declared) -> None:
    """An annotation for pydantic is the project's own word, and so is a field with one."""
    key = Annotated[InstanceOf[Flight], PlainSerializer(lambda flight: flight.pk, return_type=int)]

    class Own(BaseModel):
        flight: key  # type: ignore[valid-type]

    for number, annotation in enumerate((list[Text], Annotated[Flight, "a text"], Model, key, Own)):
        declared.tool(give(annotation), name=f"give_{number}")

    schemas = [listed(admin, f"give_{number}").get("outputSchema") for number in range(5)]

    assert schemas[:3] == [None, {"type": "object"}, {"type": "object"}]
    assert schemas[3] == {"type": "integer"} and schemas[4]["properties"] == {"flight": {"type": "integer"}}
