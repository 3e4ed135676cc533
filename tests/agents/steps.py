"""What a question is made of: the calls that a good model makes, and what the model reads in their answers."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tests.agents.facts import Facts
from tests.support.peers import MODERN, Message, Peer


class Unanswered(Exception):
    """The server refused a call whose answer is needed."""


@dataclass(frozen=True)
class Answer:
    """What a model reads of the result of one call."""

    #: The content blocks of a tool; or one text: of a resource, a notification, the instructions or an error.
    blocks: Sequence[str]
    #: The same as values, where a tool gives them. It costs no bytes: models are handed the content blocks.
    structured: Message
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.blocks)

    @property
    def size(self) -> int:
        return sum(len(block.encode()) for block in self.blocks)

    @property
    def rows(self) -> list[list[Any]]:
        """The rows of a table. Raises Unanswered."""
        if self.is_error:
            raise Unanswered(self.text)
        rows: list[list[Any]] = self.structured["rows"]
        return rows

    @property
    def csv(self) -> list[list[str]]:
        """The rows of a table in CSV, without its columns. Raises Unanswered."""
        if self.is_error:
            raise Unanswered(self.text)
        return list(csv.reader(self.blocks[0].splitlines()))[1:]

    @property
    def advice(self) -> str:
        """What says that a call was wrong: an error, or the notes of an answer."""
        return self.text if self.is_error else "\n".join(self.structured.get("notes", ()))


Answers = Sequence[Answer]


class Step(ABC):
    """One call of a model."""

    @abstractmethod
    def take(self, peer: Peer, earlier: Answers) -> Answer:
        """Make the call as a user, knowing the earlier answers.

        Raises Unanswered or TimeoutError; and whatever an answer of another shape leads to.
        """


@dataclass(frozen=True)
class Call(Step):
    """A call of a tool. Arguments that are functions are made from the earlier answers."""

    tool: str
    arguments: Mapping[str, Any]

    def take(self, peer: Peer, earlier: Answers) -> Answer:
        params = {"name": self.tool, "arguments": _filled(self.arguments, earlier)}
        message = peer.request(MODERN, "tools/call", params)
        if "error" in message:
            return Answer([json.dumps(message["error"])], {}, is_error=True)
        result = message["result"]
        blocks = [_block_text(block) for block in result["content"]]
        return Answer(blocks, result.get("structuredContent", {}), result["isError"])


@dataclass(frozen=True)
class Read(Step):
    """A resource, read as JSON."""

    uri: str

    def take(self, peer: Peer, earlier: Answers) -> Answer:
        [contents] = peer.result(MODERN, "resources/read", {"uri": self.uri})["contents"]
        return Answer([contents["text"]], json.loads(contents["text"]))


@dataclass(frozen=True)
class Watch(Step):
    """A subscription that ends with its first notification, which a change of the data by somebody else causes."""

    uri: str
    change: Callable[[], None]

    def take(self, peer: Peer, earlier: Answers) -> Answer:
        with closing(peer.watch(MODERN, [self.uri])) as stream:
            self.change()
            notification = stream.next()
        return Answer([json.dumps(notification["params"])], notification["params"])


@dataclass(frozen=True)
class Discover(Step):
    """The server's instructions, which a model has before it asks anything."""

    def take(self, peer: Peer, earlier: Answers) -> Answer:
        return Answer([peer.result(MODERN, "server/discover").get("instructions", "")], {})


def _rows(answers: Answers) -> Any:
    return answers[-1].rows


@dataclass(frozen=True)
class Question:
    """A question, the calls that a good model makes, and what they must answer within how many bytes."""

    text: str
    calls: tuple[Step, ...]
    expected: Callable[[Facts], Any]
    max_bytes: int
    #: What the model makes of the answers: the rows of the last one, if nothing else is said.
    read: Callable[[Answers], Any] = _rows
    #: One of the demo's users.
    user: str = "admin"
    #: Of a mistake: the right names, which the answer of the first call must say.
    says: tuple[str, ...] = ()


def find(model: str, **arguments: Any) -> Call:
    return Call("find_records", {"model": f"flights.{model}", **arguments})


def aggregate(model: str, **arguments: Any) -> Call:
    return Call("aggregate_records", {"model": f"flights.{model}", **arguments})


def _filled(value: Any, earlier: Answers) -> Any:
    if callable(value):
        return value(earlier)
    if isinstance(value, Mapping):
        return {name: _filled(item, earlier) for name, item in value.items()}
    return [_filled(item, earlier) for item in value] if isinstance(value, list) else value


def _block_text(block: Message) -> str:
    """A content block as a model reads it: what is no text is read with its names."""
    return str(block["text"]) if block["type"] == "text" else json.dumps(block)
