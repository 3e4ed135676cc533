"""The base class of the test clients of all transports."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*LEGACY, MODERN)

Message = dict[str, Any]


def meta(revision: str = MODERN, **more: Any) -> Message:
    """The ``_meta`` of a modern request."""
    return {
        PROTOCOL_VERSION_META_KEY: revision,
        CLIENT_CAPABILITIES_META_KEY: {},
        CLIENT_INFO_META_KEY: {"name": "tests", "version": "1"},
        **more,
    }


def offered(revision: str, *, push: bool) -> Message:
    """The capabilities of a server, as it declares them in a revision."""
    lists = {"listChanged": True} if push else {}
    resources = {**lists, "subscribe": True} if push else {}
    capabilities = {"tools": lists, "prompts": lists, "resources": resources, "logging": {}}
    return capabilities if revision == "2024-11-05" else {**capabilities, "completions": {}}


def wanted_of(uris: list[str], *, tools: bool = False, prompts: bool = False, resources: bool = False) -> Message:
    """The filter of a modern listen."""
    lists = {"toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resources}
    return {"resourceSubscriptions": uris, **{name: True for name, wanted in lists.items() if wanted}}


class Peer(ABC):
    """A client of one transport, with one token."""

    #: Whether the transport delivers notifications.
    push = True
    #: The capabilities that the client declares. Set them before its first request.
    capabilities: Message = {}

    def __init__(self, token: str | None) -> None:
        self.token = token
        self.ids = itertools.count(1)

    @abstractmethod
    def request(self, revision: str, method: str, params: Message | None = None) -> Message:
        """Send a request in a revision, opening a legacy session first where there is none, and return the answer."""

    def meta(self, **more: Any) -> Message:
        """The ``_meta`` of this client's modern requests."""
        return meta(**{CLIENT_CAPABILITIES_META_KEY: self.capabilities, **more})

    @abstractmethod
    def watch(self, revision: str, uris: list[str], *, tools: bool = False, prompts: bool = False) -> Watching:
        """Watch resources in the way of the revision, and return the stream of notifications."""

    def result(self, revision: str, method: str, params: Message | None = None) -> Any:
        """The result of a request; fails on an error."""
        answer = self.request(revision, method, params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, revision: str, method: str, params: Message | None = None) -> Any:
        """The error of a request; fails on a result."""
        answer = self.request(revision, method, params)
        assert "error" in answer, answer
        return answer["error"]

    def call(self, tool: str, revision: str = MODERN, /, **arguments: Any) -> Any:
        """The CallToolResult of a tool."""
        return self.result(revision, "tools/call", {"name": tool, "arguments": arguments})

    def tools(self, revision: str = MODERN) -> list[str]:
        return [tool["name"] for tool in self.result(revision, "tools/list")["tools"]]

    def read(self, uri: str, revision: str = MODERN) -> Any:
        """The JSON that a resource holds."""
        [contents] = self.result(revision, "resources/read", {"uri": uri})["contents"]
        return json.loads(contents["text"])

    @abstractmethod
    def close(self) -> None:
        """End sessions and streams."""


class Watching(ABC):
    """A stream of notifications."""

    #: The filter in the acknowledgement of a modern listen. None in a legacy session.
    honoured: Message | None = None

    @abstractmethod
    def next(self, seconds: float = 60) -> Message:
        """The next notification. Raises TimeoutError."""

    @abstractmethod
    def close(self) -> None: ...

    def uris(self, count: int, seconds: float = 60) -> list[str]:
        """The URIs of the next ``count`` updates, sorted."""
        found = [self.next(seconds) for _ in range(count)]
        assert all(message["method"] == "notifications/resources/updated" for message in found), found
        return sorted(message["params"]["uri"] for message in found)

    def assert_nothing_waits(self) -> None:
        """No notification is there. The test knows from something else that one would be."""
        try:
            message = self.next(0.01)
        except TimeoutError:
            return
        raise AssertionError(f"unexpected notification: {message}")
