"""The form that makes a tool of a call: its name, its description, and which of its values become arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.saved_queries import (
    MAX_CHARS,
    MAX_SAVED,
    Parameter,
    Place,
    SavedQuery,
    dotted,
    places,
    write,
)
from mcp_django.core.running.in_request import as_in_a_call
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest, from_view
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.exchange.site import Site
from mcp_django.models import Tool
from mcp_django.models.validators import validate_name
from mcp_django.protocol.types import JSON

T = TypeVar("T")

#: Values of a call that can be saved: each is three fields of the form.
MAX_VALUES = 100


@dataclass(frozen=True)
class _Line:
    """A value of the call, and the fields that make it an argument."""

    place: str
    value: str
    name: Any
    description: Any
    optional: Any


class SaveForm(forms.Form):
    """Saves a call of ``tool`` for the person of the request, who must be able to make it."""

    call = forms.CharField(widget=forms.HiddenInput, max_length=MAX_CHARS)
    name = forms.CharField(
        label=_("Name"), max_length=64, validators=[validate_name],
        help_text=_("Agents call the tool by this name. Letters, digits, _ and -."),
    )  # fmt: skip
    description = forms.CharField(
        label=_("Description"), max_length=2_000, widget=AdminTextareaWidget(attrs={"rows": 3}),
        help_text=_("What agents read about the tool: when to use it, and what it answers."),
    )  # fmt: skip

    def __init__(self, request: HttpRequest, site: MCPSite, tool: str, data: Any = None, *, call: str = "") -> None:
        super().__init__(data, initial={"call": call}, prefix="save")
        self._request, self._site, self._tool = request, site, tool
        self._call: JSON = _read(call)
        self._places: dict[Place, Any] = places(self._call)
        for index, proposed in enumerate(proposed_names(self._places)):
            self.fields[f"name-{index}"] = forms.CharField(
                label=_("Argument"), max_length=40, required=False, initial=proposed
            )
            self.fields[f"about-{index}"] = forms.CharField(label=_("Description"), max_length=300, required=False)
            self.fields[f"optional-{index}"] = forms.BooleanField(label=_("may be left out"), required=False)

    @property
    def is_of_a_call(self) -> bool:
        """Whether there is a call to be saved."""
        return bool(self._call)

    @property
    def shown_call(self) -> str:
        """The call that is saved, as an agent would write it."""
        return json.dumps({"name": self._tool, "arguments": self._call}, indent=2, ensure_ascii=False)

    @property
    def lines(self) -> Iterator[_Line]:
        """The values of the call."""
        for index, (place, value) in enumerate(self._places.items()):
            fields = (self[f"{name}-{index}"] for name in ("name", "about", "optional"))
            yield _Line(dotted(place), json.dumps(value, ensure_ascii=False), *fields)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        rows = Tool.objects.filter(site=self._site.name)
        if name in self._site.tools or rows.filter(name=name).exists():
            raise ValidationError(_("There is already a tool with this name. Choose another."))
        if rows.exclude(query="").count() >= MAX_SAVED:
            raise ValidationError(
                _("There are already %(most)d saved queries. Delete one that is not needed.") % {"most": MAX_SAVED}
            )
        return name

    def clean(self) -> dict[str, Any] | None:
        if not self.errors:
            parameters = list(self._parameters())
            self.query = write(self._tool, self._call, parameters)
            if len(self.query) > MAX_CHARS:
                raise ValidationError(
                    _("The query is longer than %(most)d characters. Save one with fewer values or fields.")
                    % {"most": MAX_CHARS}
                )
            try:
                saved = SavedQuery(self._site, self.cleaned_data["name"], self.query)
            except ValueError as error:
                raise ValidationError(str(error)) from None
            # A person saves only what an agent of theirs could call.
            if not _may_call(self._request, self._site, self._tool):
                text = _("An agent of yours may not call %(tool)s, so you cannot save a call of it.")
                raise ValidationError(text % {"tool": self._tool})
            if errors := saved.tool.errors_in(self._call):
                raise ValidationError([f"{one['field']}: {one['message']}" for one in errors])
            if why := why_not(self._request, saved):
                raise ValidationError(why)
        return super().clean()

    def _parameters(self) -> Iterator[Parameter]:
        for index, place in enumerate(self._places):
            if name := self.cleaned_data.get(f"name-{index}"):
                about = self.cleaned_data.get(f"about-{index}", "")
                yield Parameter(name, place, about, self.cleaned_data.get(f"optional-{index}", False))


def proposed_names(there: Iterable[Place]) -> Iterator[str]:
    """A name for each value of a call: that of its field and lookup. Empty for what is seldom asked for, as a limit."""
    names = {"", "cursor"}
    for place in there:
        words = [one for one in place[1:] if isinstance(one, str)]
        if not words and place[0] != "search":
            yield ""
            continue
        text = re.sub(r"[^A-Za-z0-9]+", "_", words[-1] if words else "search").strip("_")[:30]
        named = f"value_{text}".rstrip("_") if not text or text[0].isdigit() else text
        numbered = (f"{named}_{number}" for number in range(2, MAX_VALUES + 3))
        name = next(one for one in (named, *numbered) if one not in names)
        names.add(name)
        yield name


def _read(call: str) -> JSON:
    """The arguments of a call that can be saved; empty for anything else."""
    try:
        found = from_json(call, allow_inf_nan=False) if len(call) <= MAX_CHARS else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) and len(places(found)) <= MAX_VALUES else {}


def _may_call(request: HttpRequest, site: MCPSite, tool: str) -> bool:
    """Whether an agent of the viewer may call the tool, which may be switched off or restricted to groups."""
    return _ask_as_agent(request, site, lambda asking: catalog.may_call_one_of(site, asking, [site.tools[tool]]))


def viewers_request(request: HttpRequest) -> MCPRequest:
    """The request of an agent of the viewer, with every scope."""
    return from_view(request).for_principal(Principal(request.user, expand(SCOPES), source=Source.COMMAND))


def why_not(request: HttpRequest, saved: SavedQuery) -> str | None:
    """Why an agent of the viewer could not call the saved query; None where it could."""
    return _ask_as_agent(request, saved.site, saved.why_not)


def _ask_as_agent(request: HttpRequest, site: Site, ask: Callable[[MCPRequest], T]) -> T:
    """What the function answers for an agent of the viewer."""

    def run() -> T:
        asking = viewers_request(request)
        with site.in_context(asking):
            return ask(asking)

    return as_in_a_call(run)
