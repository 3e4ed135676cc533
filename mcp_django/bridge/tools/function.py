"""Functions of the project as tools, with typed arguments and a typed result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, get_type_hints

from django.core.exceptions import ImproperlyConfigured
from pydantic import PydanticUserError

from mcp_django.access.permissions import has_permission
from mcp_django.bridge.changes import asked
from mcp_django.bridge.changes.proposed import CONFIRM, REASON
from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.bridge.declared.consent import CONSENTS, is_consent
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.bridge.resources.policy.audited import note_arguments
from mcp_django.bridge.signatures import Signature, call_handler, name_and_description
from mcp_django.bridge.tools.base import Annotations, BaseTool, TaskMode
from mcp_django.bridge.tools.mirrored import mirrored_in
from mcp_django.bridge.tools.proposed_call import ProposedCall
from mcp_django.bridge.tools.results import checked, structured_result
from mcp_django.bridge.tools.returns import Returns
from mcp_django.bridge.tools.yields import Gathering, Yields, does_yield
from mcp_django.bridge.uploads.files import how_to_upload
from mcp_django.core.running.suspension import finishing
from mcp_django.exceptions import ToolError
from mcp_django.exchange.functions import InvalidArguments
from mcp_django.exchange.scopes import READ
from mcp_django.protocol.json_schema.plain import is_plain
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import flat, without_null
from mcp_django.protocol.names import ascii_name
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.changes.proposed import Admit
    from mcp_django.bridge.declared.consent import Consent
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


class FunctionTool(BaseTool):
    """A function ``f(request, **arguments)`` whose annotations are the schema and whose docstring is the description.

    An argument annotated with a model takes a primary key, and the function receives the instance, looked up among the
    rows that the principal may see. One annotated with Django's UploadedFile takes the URI of an upload, and the
    function receives the file. With an ``input_schema`` the function is ``f(request, arguments)`` and receives the
    arguments as they came. Raises ImproperlyConfigured where the function cannot be a tool.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        title: str = "",
        permission: str = "",
        annotations: Annotations,
        input_schema: Mapping[str, Any] | None = None,
        task: TaskMode = False,
        audit: Collection[str] = (),
        on_loop: bool = True,
        consent: Consent = "preview",
        preview: Callable[..., Mapping[str, Any]] | None = None,
    ) -> None:
        self.function = function
        self._on_loop = on_loop
        declared = name or function.__name__
        called = declared if declared.isascii() else ascii_name(declared)
        self.name, self._description = name_and_description("tool", function, called)
        self.title = title or ("" if called == declared else declared)
        self.permission = permission
        self.annotations = annotations
        if task not in (False, True, "later", "required"):
            raise ImproperlyConfigured(f"task of the tool {self.name} must be True, False, 'later' or 'required'.")
        self.task = task
        self._what = what = f"tool {self.name}"
        #: None where an ``input_schema`` was given, so that no annotations are read.
        self._signature = Signature(what, function, in_ascii=True) if input_schema is None else None
        try:
            if self._signature is not None:
                schema = self._schema_of(self._signature)
            else:
                from mcp_django.protocol.json_schema.declared import ready_schema

                schema = ready_schema(input_schema or {}, f"The input_schema of the {what}")
                self._parameter = _second_parameter(function, what)
            self._input = Schema(schema)
            #: By which arguments are checked.
            self._given = self._input
            if self._signature is not None:
                self._input.synonyms = {one.lower(): called for one, called in self._signature.called.items()}
            self._returned = get_type_hints(function, include_extras=True).get("return")
            self._returns: Returns | Yields
            if does_yield(function, self._returned):
                self._returns = Yields(function, self._returned, f"The {what}")
            else:
                self._returns = Returns(self._returned, f"The {what}")
        except (PydanticUserError, NameError) as error:
            raise ImproperlyConfigured(f"An annotation of the {what} cannot be used: {error}") from error
        if self._signature is not None:
            self.file_arguments = [self._signature.called.get(one, one) for one in self._signature.files]
        self.mirrored = mirrored_in(schema, f"The {what}")
        self.starts_on_loop = on_loop and self._is_all_body
        called_in = {} if self._signature is None else self._signature.called
        self.audited = tuple(called_in.get(one, one) for one in audit)
        _check_audited(self, what)
        self.consent, self.preview = consent, preview
        _check_consent(self, what)

    @staticmethod
    def _schema_of(signature: Signature) -> JSON:
        schema = flat(signature.arguments.model_json_schema())
        properties: JSON = {name: without_null(one) for name, one in schema.get("properties", {}).items()}
        for name, called in signature.called.items():
            properties[called] = {"title": name, **properties[called]}
        return {**schema, "properties": properties, "additionalProperties": schema.get("additionalProperties", False)}

    @property
    def _is_all_body(self) -> bool:
        """Whether a call is little but the asynchronous function: nothing else needs the database or the project."""
        if not inspect.iscoroutinefunction(self.function) or self.permission or self.task or self.scope != READ:
            return False
        # With an input_schema, the function gets the arguments as they came.
        takes_plain = self._signature is None or self._signature.is_plain
        return type(self) is FunctionTool and takes_plain and is_plain(self._returned)

    @property
    def declared_schema(self) -> JSON:
        """The schema of the arguments, the same for everybody."""
        return self._input.schema

    def get_description(self, request: MCPRequest | None) -> str:
        return self._description

    def needs_people(self, request: MCPRequest) -> bool:
        """Whether people may have to agree to a call, which is then previewed and confirmed."""
        return self.may_change and asked.needs_people(request, self.name, self.consent)

    def acts_at_once(self, request: MCPRequest, arguments: JSON) -> bool:
        return self.may_change and (CONFIRM in arguments or not self.needs_people(request))

    @property
    def about_call(self) -> Collection[str]:
        """The arguments beside its own with which a call is confirmed."""
        return {CONFIRM, REASON}.difference(self.argument_names)

    @cached_property
    def _confirmed_input(self) -> Schema:
        return Schema(asked.with_confirmation(self._given.schema, self.about_call))

    def get_input_schema(self, request: MCPRequest) -> JSON:
        schema = self._own_schema(request)
        return asked.with_confirmation(schema, self.about_call) if self.needs_people(request) else schema

    def _own_schema(self, request: MCPRequest) -> JSON:
        schema = self._input.schema
        if not self.file_arguments:
            return schema
        named, hint = schema["properties"], how_to_upload(request)
        described = {
            name: {**named[name], "description": " ".join(filter(None, [named[name].get("description"), hint]))}
            for name in self.file_arguments
        }
        return {**schema, "properties": {**named, **described}}

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        # The answer may be a preview, or say that people must agree.
        is_promised = self._returns.schema is not None and not self.needs_people(request)
        return self._returns.schema.schema if is_promised and self._returns.schema else None

    @property
    def returned_model(self) -> type[Model] | None:
        rows = self._returns.rows if isinstance(self._returns, Returns) else None
        return None if rows is None else rows.model

    @property
    def argument_names(self) -> Collection[str]:
        names: Collection[str] = self._input.schema.get("properties", {})
        return names

    def is_available(self, request: MCPRequest) -> bool:
        return has_permission(request, self.permission)

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        return NOTHING if self._signature is None else self._signature.complete(exchange, name, arguments[name])

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        if self.needs_people(exchange.request):
            return self._preview_or_change(exchange, arguments)
        arguments, values = self._read(exchange, arguments)
        if self.task in (True, "required"):
            exchange.as_task(required=self.task == "required")
        return self.call(exchange, values, on_loop=self._on_loop)

    def _preview_or_change(self, exchange: Exchange, arguments: JSON) -> JSON:
        self._check_can_ask()
        check = self._confirmed_input
        arguments = check.without_nulls(arguments)
        if errors := check.errors(arguments):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        answer, made = asked.preview_or_change(exchange, self, arguments)
        return structured_result(answer) if made is None else made

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> ProposedCall:
        """Read the arguments of a call to which people must agree. Raises ToolError."""
        self._check_can_ask()
        return ProposedCall(self, exchange, *self._read(exchange, arguments))

    def _check_can_ask(self) -> None:
        if why := self.why_not_asked():
            text = f"People must agree to this tool, and cannot: {why} Nothing was done."
            raise ToolError(text, reason="NO_APPROVER")

    def why_not_asked(self) -> str:
        """Why people cannot be asked about its calls; empty where they can."""
        if CONFIRM in self.argument_names:
            return f"its own argument is called {CONFIRM}. Rename it."
        secret = next(filter(is_secret_name, self.argument_names), None)
        if secret is not None and self.preview is None:
            return f"its argument {secret} has the name of a secret, which nobody may be shown. Declare preview=."
        return ""

    def _read(self, exchange: Exchange, arguments: JSON) -> tuple[JSON, JSON]:
        """The arguments as they are checked, and the values that the function gets.

        Raises ToolError, and InsufficientScope where more scopes would show the rows that the function returns.
        """
        arguments = self._given.without_nulls(arguments)
        if errors := self._given.errors(arguments):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        try:
            values = self._values(exchange, arguments)
        except InvalidArguments as error:
            raise ToolError(f"Invalid arguments for {self.name}.", error.errors, reason=error.reason) from None
        note_arguments(exchange.usage, self.audited, arguments)
        if isinstance(self._returns, Returns):
            self._returns.check(exchange)
        return arguments, values

    def call(self, exchange: Exchange, values: JSON, *, on_loop: bool) -> JSON:
        """Run the function. ``on_loop`` as for ``tool``."""
        if isinstance(self._returns, Yields):
            gathering = Gathering(self._returns, exchange, runs_to_end=self.may_change)
            finish = partial(self._finish, exchange, gathering.result)
            return self._call(exchange, gathering.function, values, finish, on_loop=on_loop)
        finish = partial(self._finish, exchange, partial(self._returns.write, exchange))
        return self._call(exchange, self.function, values, finish, on_loop=on_loop)

    def _call(
        self,
        exchange: Exchange,
        function: Callable[..., Any],
        values: JSON,
        write: Callable[[Callable[[], Any]], JSON],
        *,
        on_loop: bool,
    ) -> JSON:
        call = partial(call_handler, function, exchange.request, values, name=self._what, on_loop=on_loop)
        return finishing(write, call)

    def _finish(self, exchange: Exchange, write: Callable[[Any], JSON], run: Callable[[], Any]) -> JSON:
        """The result of a call. Raises ToolError for one that is too large."""
        returned = run()
        # A function that notices that it was cancelled may return early.
        exchange.usage.is_done = self.may_change and not exchange.cancelled
        return checked(write(returned), is_done=exchange.usage.is_done)

    def _values(self, exchange: Exchange, arguments: JSON) -> JSON:
        """The arguments of the function, apart from the request. Raises InvalidArguments."""
        if self._signature is not None:
            return self._signature.parse(exchange, arguments)
        # A copy, since a function that changes it must not change what the next round of questions is compared with.
        return {self._parameter: deepcopy(arguments)}


def _check_audited(tool: FunctionTool, what: str) -> None:
    for name in tool.audited:
        if name not in tool.argument_names:
            raise ImproperlyConfigured(unknown_name(f"audit= of the {what}: argument", name, list(tool.argument_names)))
        if is_secret_name(name):
            raise ImproperlyConfigured(f"audit= of the {what}: {name!r} is the name of a secret. Leave it out.")


def _check_consent(tool: FunctionTool, what: str) -> None:
    if not is_consent(tool.consent):
        raise ImproperlyConfigured(f"consent= of the {what} must be {CONSENTS}, and not {tool.consent!r}.")
    if tool.preview is not None:
        names = [one.name for one in list(inspect.signature(tool.function).parameters.values())[1:]]
        try:
            inspect.signature(tool.preview).bind(None, **dict.fromkeys(names))
        except TypeError as error:
            raise ImproperlyConfigured(f"preview= of the {what} must take what the tool takes: {error}.") from None
    if tool.consent == "preview":
        return
    if tool.annotations.read_only:
        raise ImproperlyConfigured(f"The {what} only reads, so nobody is asked for consent=.")
    if tool.task:
        raise ImproperlyConfigured(f"The {what} has a task= and consent=. What people agreed to runs once, at once.")
    if why := tool.why_not_asked():
        raise ImproperlyConfigured(f"consent= of the {what}: {why}")


def _second_parameter(function: Callable[..., Any], what: str) -> str:
    """The name under which ``f(request, arguments)`` takes the arguments. Raises ImproperlyConfigured."""
    taken = list(inspect.signature(function).parameters.values())
    plain = [one for one in taken if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if len(taken) != 2 or plain[-1:] != taken[-1:] or taken[0].kind is taken[0].KEYWORD_ONLY:
        raise ImproperlyConfigured(
            f"The {what} has an input_schema, and must be written as {function.__name__}(request, arguments)."
        )
    return taken[1].name
