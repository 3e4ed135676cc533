"""Questions to the client and its user: elicitation, sampling, roots (2026-07-28 patterns/mrtr, client/elicitation).

A question ends the run of its handler: ``InputRequired`` is raised through it, the server asks the client, and the
handler runs again from the top with the answers. So no thread waits for a person, and nothing with an effect may stand
before a question.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from django.utils.functional import cached_property

from mcp_django.protocol.errors import InvalidParams, LimitExceeded
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel

#: The types that a property of a form may have, and the keywords that each may carry beside title and description.
_PROPERTY_KEYWORDS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "format", "enum", "enumNames", "oneOf", "default"}),
    "number": frozenset({"minimum", "maximum", "default"}),
    "integer": frozenset({"minimum", "maximum", "default"}),
    "boolean": frozenset({"default"}),
    "array": frozenset({"items", "minItems", "maxItems", "default"}),
}
_FORMATS = frozenset({"email", "uri", "date", "date-time"})

#: The most rounds of questions of one request: a handler that asks more would ask without end.
MAX_ROUNDS = 20


def too_many_rounds() -> LimitExceeded:
    return LimitExceeded(f"More than {MAX_ROUNDS} rounds of questions.")


class InputRequired(BaseException):
    """Ends the run of a handler whose questions are not answered yet. ``except Exception`` must not catch it."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__(", ".join(questions))
        self.questions = questions


@dataclass(frozen=True, slots=True)
class Elicited:
    """How the user answered a form or a link. ``content`` holds the values of a form that was accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: Any = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@dataclass(frozen=True, slots=True)
class Sampled:
    """A message that the client's model wrote. ``content`` is one content block, or a list of them."""

    role: str
    content: Any
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of the content blocks that are text."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "".join(block["text"] for block in blocks if block.get("type") == "text")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or file that the client works on. ``uri`` begins with ``file://``."""

    uri: str
    name: str = ""


class Question(ABC):
    """A question that only the client can answer."""

    method: ClassVar[str]
    #: Whether an answer counts only with a signed state, which proves that the question was asked.
    trusted: bool
    #: Whether the answer counts only once. Raises ValueError where it is not ``trusted``.
    single_use: bool

    def __post_init__(self) -> None:
        if self.single_use and not self.trusted:
            raise ValueError("An answer that counts without a state can be sent again: single_use needs trusted=True.")

    @property
    @abstractmethod
    def capability(self) -> JSON:
        """The capabilities that the client must have declared, as an object of ClientCapabilities."""

    @abstractmethod
    def to_params(self) -> JSON:
        """The params of the request, in the newest shape."""

    @abstractmethod
    def parse(self, answer: JSON) -> Any:
        """The answer as the handler gets it. Raises InvalidParams, or pydantic's ValidationError."""

    def digest(self) -> str:
        """Names the question as it was asked, so that the answer to another question is not taken for its own."""
        return digest([self.method, self.to_params()])


@dataclass(frozen=True)
class Elicitation(Question):
    """A form for the user. ``schema`` is a JSON Schema object of flat primitives, or a pydantic model of such fields.

    ``Elicited.content`` is a dict, or an instance of the model. Raises ValueError for a schema that no client can show.
    """

    message: str
    schema: JSON | type[BaseModel]
    trusted: bool = True
    single_use: bool = False

    method = "elicitation/create"
    capability = {"elicitation": {}}

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_form(self.requested_schema)

    @cached_property
    def requested_schema(self) -> JSON:
        if isinstance(self.schema, dict):
            return self.schema
        generated = self.schema.model_json_schema()
        generated.pop("title", None)
        generated.pop("description", None)
        return generated

    def to_params(self) -> JSON:
        return {"message": self.message, "requestedSchema": self.requested_schema}

    def parse(self, answer: JSON) -> Elicited:
        from mcp_types import ElicitResult

        given = ElicitResult.model_validate(answer)
        if given.action != "accept":
            return Elicited(given.action)
        content = given.content or {}
        if errors := Schema(self.requested_schema).errors(content):
            raise InvalidParams(
                f"The form is not filled in as its schema says: {errors[0]['field']}: {errors[0]['message']}.", errors
            )
        return Elicited("accept", content if isinstance(self.schema, dict) else self.schema.model_validate(content))


@dataclass(frozen=True)
class URLElicitation(Question):
    """A page that the user is to open, for what must not pass through the client: secrets, payments.

    ``accept`` means that the user agreed to open it, and not that anything was done there. The page must itself find
    out who opens it: the URL must hold no credential (2026-07-28 client/elicitation#safe-url-handling).
    """

    message: str
    url: str
    trusted: bool = True
    single_use: bool = False

    method = "elicitation/create"
    capability = {"elicitation": {"url": {}}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"{self.url[:100]!r} is not an address that a user can open.")

    def to_params(self) -> JSON:
        return {"mode": "url", "message": self.message, "url": self.url}

    def parse(self, answer: JSON) -> Elicited:
        from mcp_types import ElicitResult

        return Elicited(ElicitResult.model_validate(answer).action)


@dataclass(frozen=True)
class Sampling(Question):
    """A message that the client's model is to write. ``messages`` is a text, or SamplingMessages of the protocol."""

    messages: str | Sequence[JSON]
    max_tokens: int
    system_prompt: str = ""
    #: More params of the request, by their names in the protocol, as ``{"temperature": 0.2}``.
    options: JSON = field(default_factory=dict)
    trusted: bool = True
    single_use: bool = False

    method = "sampling/createMessage"

    @property
    def capability(self) -> JSON:
        needs: JSON = {}
        if "tools" in self.options or "toolChoice" in self.options:
            needs["tools"] = {}
        if self.options.get("includeContext", "none") != "none":
            needs["context"] = {}
        return {"sampling": needs}

    def to_params(self) -> JSON:
        messages = self.messages
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        prompt = {"systemPrompt": self.system_prompt} if self.system_prompt else {}
        return {"messages": list(messages), "maxTokens": self.max_tokens, **prompt, **self.options}

    def parse(self, answer: JSON) -> Sampled:
        from mcp_types import CreateMessageResult, CreateMessageResultWithTools

        shape = CreateMessageResultWithTools if "tools" in self.options else CreateMessageResult
        shape.model_validate(answer)
        return Sampled(answer["role"], answer["content"], answer["model"], answer.get("stopReason"))


@dataclass(frozen=True)
class Roots(Question):
    """The folders and files that the client works on."""

    trusted: bool = True
    single_use: bool = False

    method = "roots/list"
    capability = {"roots": {}}

    def to_params(self) -> JSON:
        return {}

    def parse(self, answer: JSON) -> list[Root]:
        from mcp_types import ListRootsResult

        roots = ListRootsResult.model_validate(answer).roots
        return [Root(str(root.uri), root.name or "") for root in roots]


def declares(capabilities: JSON, required: JSON) -> bool:
    """Whether a client's capabilities hold the required ones. ``elicitation: {}`` stands for forms."""
    for name, needs in required.items():
        declared = capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        if name == "elicitation" and not needs and declared and "form" not in declared:
            return False
        if not declares(declared, needs):
            return False
    return True


def digest(value: Any) -> str:
    """Names a JSON value, whatever the order of its members."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _check_form(schema: JSON) -> None:
    """Raises ValueError for a schema that no form may have (2026-07-28 client/elicitation#requested-schema)."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise ValueError('The schema of a form must be {"type": "object", "properties": {…}}.')
    for name, declared in properties.items():
        kind = str(declared.get("type")) if isinstance(declared, dict) else ""
        if kind not in _PROPERTY_KEYWORDS:
            raise ValueError(f"{name}: a form's field is a string, number, integer, boolean or array of choices.")
        unknown = set(declared) - _PROPERTY_KEYWORDS[kind] - {"type", "title", "description"}
        if unknown:
            raise ValueError(f"{name}: a form's {kind} takes no {', '.join(sorted(unknown))}.")
        if declared.get("format", "email") not in _FORMATS:
            raise ValueError(f"{name}: format must be one of {', '.join(sorted(_FORMATS))}.")
        if kind == "array" and not ({"enum", "anyOf"} & set(declared.get("items", {}))):
            raise ValueError(f"{name}: the items of an array must be choices (enum, or anyOf with const and title).")
