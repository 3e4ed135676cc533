"""How the client answers what the server asks, as the test tells it to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mcp_django.protocol.extensions import TASKS_CAPABILITY
from mcp_django.protocol.types import JSON

#: From the params of a form or a link: the values of the form, or "accept", "decline" or "cancel".
Elicit = Callable[[JSON], JSON | str]
#: From the params of ``sampling/createMessage``: the text that the model writes, or the whole result.
Sample = Callable[[JSON], JSON | str]


class Answerer:
    """Answers by what it is given, and declares the capabilities that go with it."""

    def __init__(
        self, elicit: Elicit | None, sample: Sample | None, roots: Sequence[str] | None, *, tasks: bool
    ) -> None:
        self._elicit, self._sample, self._roots = elicit, sample, roots
        self.capabilities: JSON = dict(TASKS_CAPABILITY) if tasks else {}
        if elicit is not None:
            self.capabilities["elicitation"] = {"form": {}, "url": {}}
        if sample is not None:
            self.capabilities["sampling"] = {"tools": {}, "context": {}}
        if roots is not None:
            self.capabilities["roots"] = {}

    def answer_all(self, requests: Mapping[str, JSON]) -> JSON:
        """The answers to questions, by the same keys."""
        return {key: self.answer(asked["method"], asked.get("params") or {}) for key, asked in requests.items()}

    def answer(self, method: str, params: JSON) -> JSON:
        """The result of one request of the server's."""
        if method == "elicitation/create" and self._elicit is not None:
            given = self._elicit(params)
            return {"action": given} if isinstance(given, str) else {"action": "accept", "content": given}
        if method == "sampling/createMessage" and self._sample is not None:
            given = self._sample(params)
            content = {"type": "text", "text": given}
            return {"role": "assistant", "content": content, "model": "test"} if isinstance(given, str) else given
        if method == "roots/list" and self._roots is not None:
            return {"roots": [{"uri": uri} for uri in self._roots]}
        raise AssertionError(f"The server asked {method}, which this client did not declare.")
