"""Why a request was refused, for the test or the terminal that made it: as *Why not?* says of what it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice

from django.core.exceptions import ValidationError
from django.db.models import Model

from mcp_django.access import overrides
from mcp_django.bridge.resources import uris
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.console.review import reasons
from mcp_django.console.review.checklist import Kind, Reasons
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.types import JSON

#: Arguments of tools that name rows of their model.
_KEYS = ("id", "ids")
#: Rows of a call of which it is asked whether the user sees them.
_MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class TrueReason:
    """Finds out why a request was refused, once somebody asks for it."""

    site: MCPSite
    principal: Principal
    request: MCPRequest
    method: str
    params: JSON
    #: The switches of a test's client.
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    #: The exceptions that ended the call.
    failures: Sequence[BaseException] = ()

    def __call__(self) -> str:
        """The reason in one sentence; empty where nothing refuses what the request names."""
        if self.failures:
            first = self.failures[0]
            return f"{type(first).__name__}: {first}".removesuffix(": ")
        # A test may have changed a switch without a signal.
        overrides.forget()
        with self.around():
            return next(filter(None, self._reasons()), "")

    def _reasons(self) -> Iterator[str]:
        match self.method:
            case "tools/call":
                yield self._why_not("tool", str(self.params.get("name", "")))
                yield from self._of_arguments(self.params.get("arguments") or {})
            case "prompts/get":
                yield self._why_not("prompt", str(self.params.get("name", "")))
            case "completion/complete":
                named = self.params.get("ref") or {}
                kind: Kind = "prompt" if "name" in named else "resource"
                yield self._why_not(kind, str(named.get("name") or named.get("uri", "")))
            case _ if "uri" in self.params:
                yield self._of_uri(str(self.params["uri"]))

    def _of_uri(self, uri: str) -> str:
        target = uris.parse(uri)
        model = None if target is None or not target.is_of_record else self.site.models.get(target.label)
        return self._of_row(model.model, target.key) if target and model else self._explain(uri).why

    def _of_arguments(self, arguments: JSON) -> Iterator[str]:
        """Of the model, its rows and the way of writing that a call names."""
        tool = self.site.tools.get(str(self.params.get("name")))
        label = tool.model_mcp.label if isinstance(tool, ActingTool) else str(arguments.get("model", "")).lower()
        model = self.site.models.get(label)
        yield self._explain(label).why if label else ""
        if model is None:
            return
        if operation := arguments.get("operation") or getattr(tool, "operation", ""):
            yield self._explain(f"{label}:{operation}").why
        for key in _keys(arguments):
            yield self._of_row(model.model, key)

    def _of_row(self, model: type[Model], key: str) -> str:
        found = self._explain(uris.record_uri(model, key))
        if found.no is None or found.no.step != "row":
            return found.why
        try:
            is_there = model._base_manager.filter(pk=key).exists()
        except (ValueError, TypeError, ValidationError):
            is_there = False
        # "Why not?" does not say it, since its reader may not know of the row either.
        return found.why if is_there else f"There is no {model._meta.label} {key}."

    def _why_not(self, kind: Kind, name: str) -> str:
        found = self._explain(name)
        if found.kind not in (kind, None) and kind in ("tool", "prompt"):
            # Something of another kind has the name.
            found = self._explain(f"{kind}:{name}")
        return found.why

    def _explain(self, name: str) -> Reasons:
        return reasons.explain(self.site, self.principal.user, self.principal.scopes, name, request=self.request)


def _keys(arguments: JSON) -> list[str]:
    """The primary keys of rows that a call names, the first ones."""
    found = [arguments[name] for name in _KEYS if name in arguments]
    keys = (key for one in found for key in (one if isinstance(one, list) else [one]))
    return [str(key) for key in islice(keys, _MAX_ROWS)]
