"""The operations that a site exposes, by their names, and what was left out of them and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_django.access.permissions import has_scope
from mcp_django.bridge.api import operations
from mcp_django.bridge.api.defaults import MACHINES, why_left_out
from mcp_django.bridge.api.exposures import FormPages
from mcp_django.bridge.api.identity import Identity, identity_of
from mcp_django.bridge.api.operations import matches

if TYPE_CHECKING:
    from mcp_django.bridge.api.exposures import Exposure
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.requests import MCPRequest


class Api:
    """What the exposures of a site come to, by the URLconf."""

    def __init__(self, exposures: Iterable[Exposure]) -> None:
        self.exposures = list(exposures)
        #: Each operation that an exposure names, once: the last exposure that names it counts.
        every: dict[tuple[str, str], Operation] = {}
        for exposure in self.exposures:
            for one in operations.find(exposure):
                every[one.route.regex, one.method] = one
        self.all: Sequence[Operation] = operations.with_distinct_names(every.values())
        #: A name that several would have, by what their URLs say → the names that they have.
        self.shared_names: Mapping[str, Sequence[str]] = operations.shared_names(every.values(), self.all)
        #: Name → why it is left out.
        self.left_out: Mapping[str, Any] = {
            one.name: why for one in self.all if (why := self._why_left_out(one)) is not None
        }
        self.operations: Mapping[str, Operation] = {one.name: one for one in self.all if one.name not in self.left_out}

    def _why_left_out(self, operation: Operation) -> Any:
        """Why the operation is not offered; None where it is. Empty where the project itself says so."""
        exposure, name = operation.exposure, operation.name
        if any(matches(one, pattern) for pattern in exposure.exclude for one in (name, operation.first_name)):
            return ""
        if identity_of(operation) is Identity.MACHINE:
            return MACHINES
        is_named = name in exposure.include or name in exposure.tools
        if is_named or isinstance(exposure.target, FormPages):
            return None
        if not any(matches(name, pattern) for pattern in exposure.include):
            return ""
        return why_left_out(operation) or None

    @cached_property
    def records(self) -> Mapping[str, Operation]:
        """Resource → the operation that shows one record of it, for resources that can be watched."""
        from mcp_django.bridge.api.resource import records_of

        return records_of(self.operations)

    @cached_property
    def resources(self) -> Mapping[str, Sequence[Operation]]:
        found: dict[str, list[Operation]] = {}
        for one in self.operations.values():
            found.setdefault(one.resource, []).append(one)
        return found

    def reading(self, operation: Operation) -> Operation | None:
        """The operation that reads what another one changes: GET of the same URL."""
        regex = operation.route.regex
        return next((one for one in self.operations.values() if one.is_safe and one.route.regex == regex), None)

    def named_tools(self) -> Sequence[Operation]:
        """The operations that are tools of their own."""
        every = self.operations.values()
        return [one for one in every if any(matches(one.name, pattern) for pattern in one.exposure.tools)]

    @cached_property
    def scopes(self) -> Mapping[bool, Sequence[str]]:
        """The scopes of the operations that read, and of those that change data: by whether they are safe."""
        found: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for one in self.operations.values():
            found[one.is_safe][one.scope] = None
        return {is_safe: list(scopes) for is_safe, scopes in found.items()}

    def reaches(self, request: MCPRequest, *, safe: bool) -> bool:
        """Whether the credential of the request reaches an operation that reads, or one that changes data."""
        return any(has_scope(request, scope) for scope in self.scopes[safe])

    def named(self, name: str) -> Operation | None:
        """The operation of this name, also one that is left out."""
        return next((one for one in self.all if one.name == name), None)

    def find(self, request: MCPRequest, name: str) -> Operation | None:
        """The operation of this name, if the credential of the request reaches it."""
        found = self.operations.get(name)
        return found if found is not None and has_scope(request, found.scope) else None

    def reached(self, request: MCPRequest) -> Mapping[str, Operation]:
        """The operations that the credential of the request reaches by its scopes."""
        scopes = [scope for each in self.scopes.values() for scope in each]
        held = {scope for scope in scopes if has_scope(request, scope)}
        return {name: one for name, one in self.operations.items() if one.scope in held}

    def unknown_names(self) -> Collection[str]:
        """What options of exposures name, and no operation is called."""
        names = {name for one in self.all for name in (one.name, one.first_name)}
        return [
            pattern
            for exposure in self.exposures
            for pattern in exposure.named()
            if not any(matches(name, pattern) for name in names)
        ]

    def serves_nothing(self) -> Sequence[Exposure]:
        """The exposures whose target no URL serves. Of pages with forms, each name is told."""
        served = {id(one.exposure) for one in self.all}
        others = [one for one in self.exposures if id(one) not in served and not isinstance(one.target, FormPages)]
        return [one for one in others if not any(True for _ in operations.find(one))]

    def pages_without_form(self) -> Sequence[str]:
        """The names of ``expose_form`` that no URL with a form has."""
        pages = [one for one in self.exposures if isinstance(one.target, FormPages)]
        served = {one.route.full_name for exposure in pages for one in operations.find(exposure)}
        return [name for exposure in pages for name in exposure.target.names if name not in served]
