"""What the packages below the bridge know of the site that answers a request. ``MCPSite`` is one."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest


class Site(Protocol):
    """One endpoint: what it offers by name, and what the project says about its requests."""

    name: str
    tools_on_loop: Sequence[str]
    inlines: Mapping[Any, Sequence[Any]]
    keys_alone: dict[Any, Any]
    resources: dict[str, Any]
    prompts: dict[str, Any]
    action_permission: Literal["change", "view"]

    @property
    def models(self) -> Mapping[str, Any]: ...

    @property
    def tools(self) -> Mapping[str, Any]: ...

    @property
    def api(self) -> Any: ...

    @property
    def api_resources(self) -> Collection[str]: ...

    def actions_on(self, model: Any) -> Sequence[Any]: ...

    @property
    def tools_on(self) -> Sequence[str]: ...

    @property
    def model_admins(self) -> Mapping[Any, Any]: ...

    @property
    def undecided_models(self) -> Mapping[Any, Any]: ...

    @property
    def runs_on_loop(self) -> bool: ...

    @property
    def has_call_context(self) -> bool: ...

    @property
    def has_remember_key(self) -> bool: ...

    def __hash__(self) -> int: ...

    def implementation(self) -> dict[str, Any]: ...

    def in_context(self, request: HttpRequest) -> AbstractContextManager[None]: ...

    def acall_context(self, request: HttpRequest) -> AbstractAsyncContextManager[None]: ...

    def remember_key(self, request: HttpRequest) -> Hashable | None: ...

    def persons_of(self, request: HttpRequest) -> frozenset[str]: ...

    def get_instructions(self, request: HttpRequest) -> str: ...

    def is_registered(self, model: Any) -> bool: ...

    def find_actions(self, request: MCPRequest) -> None: ...

    def find_resource(self, uri: str) -> Any: ...

    def can_run_task(self, principal: Principal) -> bool: ...
