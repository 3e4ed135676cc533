"""The base class of all tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.utils.functional import cached_property
from django.utils.text import capfirst

from mcp_django.access.read_only import is_read_only
from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.exchange.scopes import ACTIONS, READ
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.tools.mirrored import Mirrored
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a tool does to the world. All four are always sent, since clients assume the worst of a missing one."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = False

    def to_json(self) -> JSON:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


#: Whether a call of a tool may become a task. True: before the tool's first line, where the client knows tasks.
#: "required": as True, and without tasks the call is refused. "later": when the tool calls ``request.mcp.as_task()``.
TaskMode = bool | Literal["later", "required"]


class BaseTool(ABC):
    """A tool of a site. It is stateless: each request brings its principal."""

    name: str
    title: str = ""
    annotations = Annotations()
    #: The arguments that an HTTP client repeats in headers.
    mirrored: tuple[Mirrored, ...] = ()
    #: The arguments whose values the audit trail keeps.
    audited: Collection[str] = ()
    #: The names of tools whose work it does too: it asks what administrators decided that they ask.
    covers: Collection[str] = ()
    #: Whether the tool is on where no administrator has decided.
    enabled_by_default = True
    #: The names of the arguments that are files, which clients upload first.
    file_arguments: Collection[str] = ()
    #: See ``TaskMode``. A tool that sets it calls ``request.mcp.as_task()``.
    task: TaskMode = False
    #: Whether nothing but the body of its function needs the database or code of the project. Then its calls may begin
    #: on the event loop.
    starts_on_loop = False
    #: Of the operations of the project's API those that it calls: that read (True), or that change data (False). None
    #: for a tool that is not for them.
    opens: Sequence[bool] | None = None
    #: Whether ``is_available`` may ask for permissions of the user, which are then read before.
    asks_permissions = True
    #: What the agent reads when the tool fails with an error whose text was not written for agents.
    on_failure = "The server's log has the details; calling it again may not help."

    @property
    def takes_files(self) -> bool:
        """Whether what it is called with may be files, which clients upload first."""
        return bool(self.file_arguments)

    @property
    def may_change(self) -> bool:
        """Whether a call may change data."""
        return not self.annotations.read_only

    def acts_at_once(self, request: MCPRequest, arguments: JSON) -> bool:
        """Whether a call with these arguments changes data, and not only shows what it would change."""
        return self.may_change

    @property
    def is_closed(self) -> bool:
        """Whether MCP["READ_ONLY"] takes it away from everybody. What it says of itself is believed."""
        return self.may_change and is_read_only()

    @cached_property
    def scope(self) -> str:
        """The scope that a token needs for the tool."""
        return READ if self.annotations.read_only else ACTIONS

    @property
    def least_scope(self) -> str:
        """The scope that opens the tool, at least for a part of what it can do."""
        return self.scope

    def get_title(self) -> str:
        """The title that people read."""
        return self.title or capfirst(self.name.replace("_", " "))

    @abstractmethod
    def get_description(self, request: MCPRequest | None) -> str:
        """The description that agents read, or without a request the one that administrators read."""

    @abstractmethod
    def get_input_schema(self, request: MCPRequest) -> JSON:
        """JSON Schema of the arguments, which are an object."""

    @property
    def declared_schema(self) -> JSON:
        """The schema of the arguments that the project declares. Empty for a tool of ours."""
        return {}

    @property
    def returned_model(self) -> type[Model] | None:
        """The model whose rows a function of the project returns, where its annotation says so."""
        return None

    @property
    def argument_names(self) -> Collection[str]:
        """The names of the arguments that the tool declares. The audit trail repeats no other."""
        return ()

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        """JSON Schema of the structured content, where the tool has one.

        It must say that the content is always an object (``"type": "object"``) or that it is never one. Older clients
        know only objects, so anything else is sent to them under ``result``.
        """
        return None

    @abstractmethod
    def is_available(self, request: MCPRequest) -> bool:
        """Whether the request's user may use the tool. Scope and override are checked in ``access.permissions``."""

    def needs_people(self, request: MCPRequest) -> bool:
        """Whether a call may wait for people beside those whom the forms of the admin need."""
        return False

    def is_permitted(self, request: MCPRequest) -> bool:
        """Whether the user may use the tool, even if the credential lacks its scope."""
        return self.is_available(request)

    @cached_property
    def _input(self) -> Schema:
        """What the arguments are checked by."""
        return Schema({})

    def read_from_texts(self, arguments: Mapping[str, Any]) -> list[str]:
        """The names of the arguments that were sent as the text of their JSON, and read as such."""
        return self._input.read_from_texts(arguments)

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        """Suggestions for the argument of this name, for a person who fills in the arguments.

        ``arguments`` are all of them, as they were typed: several values with commas between them. Raises MCPError.
        """
        return NOTHING

    @abstractmethod
    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        """The CallToolResult. Raises ToolError and MCPError. Of any other error, only the log has the text."""
