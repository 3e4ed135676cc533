"""Admin actions as tools. They run through the ModelAdmin, on its queryset, if its permission checks allow."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from django.apps import apps
from django.contrib import admin as contrib_admin
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DataError, IntegrityError, connections, router, transaction
from django.utils.functional import cached_property

from mcp_django.access import nonces
from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.bridge.resources.completers import complete_argument
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.reading import splitting
from mcp_django.bridge.tools import action_pages, confirmations
from mcp_django.bridge.tools.action_pages import ActionRun, Answers, FormShown
from mcp_django.bridge.tools.action_responses import read_messages, read_response
from mcp_django.bridge.tools.action_rows import MAX_ACTION_IDS, ChosenRows, finds_rows, of_filter, of_ids, preview
from mcp_django.bridge.tools.base import Annotations, BaseTool
from mcp_django.bridge.tools.history import History
from mcp_django.bridge.tools.results import refused_by_database, text_block, text_result
from mcp_django.bridge.tools.row_texts import RowTexts
from mcp_django.core.compat.connections import is_nested_durable
from mcp_django.core.db.written_rows import WrittenRows
from mcp_django.core.hooks import call_hook, hook_of
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.exchange.passing_session import passing_session
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import open_object
from mcp_django.protocol.jsonrpc import encode
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

# Django 6.1 has actions of its forms beside those of its lists.
_LOCATION: Any = getattr(contrib_admin, "ActionLocation", None)

F = TypeVar("F", bound=Callable[..., Any])

_MAX_NAME = 64
_FILTER = "Instead of ids, as in find_records."
_FIRST_CALL = " Shows the rows first."
_AGAIN = "Call again without confirm, and then with the token of that answer."
#: More ids than these are shown first, as the rows of a filter are.
_MANY = 20
_CONFIRM: JSON = {
    "type": "string",
    "maxLength": confirmations.MAX_CHARS,
    "description": "The token given with these rows.",
}
_NAME_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]+")


def action(
    *, read_only: bool = False, destructive: bool = True, idempotent: bool = False, changes: Collection[str] = ()
) -> Callable[[F], F]:
    """Declare what an admin action does to the data. This must be the outermost decorator.

    The function itself does not show it, so an action without this decorator counts as destructive.

    The arguments become ``readOnlyHint``, ``destructiveHint`` and ``idempotentHint`` (2026-07-28
    schema#toolannotations). A ``read_only`` action is never destructive and always idempotent. It needs the scope
    ``read`` instead of ``actions``, runs on the rows of a filter without ``confirm``, and writes no history.

    ``changes`` names the fields that the action changes. Its preview says what is in them now.
    """

    def decorate(function: F) -> F:
        function.mcp_annotations = Annotations(  # type: ignore[attr-defined]
            read_only=read_only, destructive=destructive and not read_only, idempotent=idempotent or read_only
        )
        function.mcp_changes = tuple(changes)  # type: ignore[attr-defined]
        return function

    return decorate


def tool_name(*parts: str) -> str:
    """``app_model_action`` within ``^[a-zA-Z0-9_-]{1,64}$``. A name that had to be changed or cut ends in its hash."""
    whole = "_".join(parts)
    safe = _NAME_UNSAFE.sub("_", whole)
    if safe == whole and len(safe) <= _MAX_NAME:
        return safe
    mark = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{safe[: _MAX_NAME - len(mark) - 1]}_{mark}"


def declared_actions(model_mcp: ModelMCP) -> Iterator[AdminActionTool]:
    """A tool for each action that the ModelAdmin itself declares. Actions of the whole AdminSite are not tools."""
    admin = model_mcp.model_admin
    if admin is None:
        return
    places = _places(hook_of(admin, "get_action"))
    # Django's own check reports what is no list, and what is in it and no action.
    for declared in admin.actions if isinstance(admin.actions, list | tuple) else ():
        if not isinstance(declared, str) and not callable(declared):
            continue
        found = next(filter(None, (admin.get_action(declared, *place) for place in places)), None)
        if found is not None and _can_be_called(_as_tuple(found)[0]):
            yield AdminActionTool(model_mcp, *_as_tuple(found))


def _can_be_called(function: Callable[..., Any]) -> bool:
    """Whether the function takes what the admin gives to an action: the ModelAdmin, the request and the rows."""
    try:
        # A decorator may give what it wraps more than it takes, as the values of a form.
        signature(function, follow_wrapped=False).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:
        return True  # One that is not written in Python does not say.
    return True


def adds_actions(model_mcp: ModelMCP) -> bool:
    """Whether the project's own ``get_actions`` may offer more than the ModelAdmin declares."""
    admin = model_mcp.model_admin
    return admin is not None and hook_of(admin, "get_actions") is not ModelAdmin.get_actions


def offered_actions(model_mcp: ModelMCP, request: MCPRequest) -> Iterator[AdminActionTool]:
    """A tool for each action that the ModelAdmin offers for the request, except those of the whole AdminSite."""
    admin = model_mcp.model_admin
    if admin is None:
        return
    of_site: dict[str, Any] = dict(cast("Any", admin.admin_site.actions))
    nothing: dict[str, Any] = {}
    offered = call_hook(partial(_offered, admin, request), nothing, f"{type(admin).__name__}.get_actions")
    for name, found in offered.items():
        if of_site.get(name) is not _as_tuple(found)[0] and _can_be_called(_as_tuple(found)[0]):
            yield AdminActionTool(model_mcp, *_as_tuple(found))


def _offered(admin: ModelAdmin[Any], request: MCPRequest) -> dict[str, Any]:
    """The actions of the admin's lists and, from Django 6.1 on, of its forms."""
    found: dict[str, Any] = {}
    for place in _places(hook_of(admin, "get_actions")):
        found = {**admin.get_actions(request, *place), **found}
    return found


@lru_cache(maxsize=1_000)
def _places(method: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """The arguments that ask ``get_action`` or ``get_actions`` for each place. A project's own may take no place."""
    if _LOCATION is None or "action_location" not in signature(method).parameters:
        return [()]
    return [(_LOCATION.CHANGE_LIST,), (_LOCATION.CHANGE_FORM,)]


def _as_tuple(found: Any) -> tuple[Callable[..., Any], str, Any]:
    """The function, name and label of an action: a tuple up to Django 6.0, and also later where a project makes it."""
    return found if isinstance(found, tuple) else (found.func, found.name, found.plural_description)


class AdminActionTool(BaseTool):
    """One action of a ModelAdmin. Agents call it with the primary keys of the rows to act on, or with a filter."""

    # We cannot know which actions change data, so an administrator must switch each of them on.
    enabled_by_default = False
    on_failure = "Nothing was changed. The server's log has the details."
    #: What drives an action through its pages. A package imports only from packages below it, so it is handed in.
    browser: ClassVar[Callable[..., Any]]

    def __init__(self, model_mcp: ModelMCP, function: Callable[..., Any], action_name: str, description: Any) -> None:
        self.model_mcp = model_mcp
        self.action_name = action_name
        self.name = tool_name(model_mcp.opts.app_label, model_mcp.opts.model_name or "", action_name)
        self.annotations = getattr(function, "mcp_annotations", Annotations())
        self.changes: tuple[str, ...] = getattr(function, "mcp_changes", ())
        #: The user needs one of these, as the ModelAdmin checks them (see ``is_available``).
        self.permissions: list[str] = list(
            getattr(function, "allowed_permissions", (model_mcp.site.action_permission,))
        )
        self._label = description

    def get_title(self) -> str:
        """The label of the action in the admin, as ``Mark selected flights as cancelled``."""
        names = {
            "verbose_name": self.model_mcp.opts.verbose_name,
            "verbose_name_plural": self.model_mcp.opts.verbose_name_plural,
        }
        try:
            label = str(self._label) % names
        except (ValueError, TypeError, KeyError):
            label = str(self._label)
        return label.rstrip(".")

    def get_description(self, request: MCPRequest | None) -> str:
        return f"{self.get_title()}. Acts on {self.model_mcp.label} rows, by ids{self._or_filter(request)}."

    def _or_filter(self, request: MCPRequest | None) -> str:
        return (
            "" if request is not None and "filter" not in self.get_input_schema(request)["properties"] else " or filter"
        )

    def get_input_schema(self, request: MCPRequest) -> JSON:
        schema = self._input.schema
        rights = Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label)
        if rights is not None and finds_rows(rights):
            return schema
        return {**schema, "properties": {name: one for name, one in schema["properties"].items() if name != "filter"}}

    @cached_property
    def _input(self) -> Schema:
        label = self.model_mcp.label
        ids = {
            "type": "array",
            # Integers are taken too. One type in each schema, since some model interfaces drop a tool with two.
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_ACTION_IDS,
            "description": f"Primary keys of the {label} rows to act on. All or none are acted on."
            + ("" if self.annotations.read_only else f" More than {_MANY} are shown first."),
        }
        filtered = open_object(_FILTER if self.annotations.read_only else _FILTER + _FIRST_CALL)
        properties: JSON = {"ids": ids, "filter": filtered, "pages": action_pages.SCHEMA}
        if not self.annotations.read_only:
            properties["confirm"] = _CONFIRM
        return Schema({"type": "object", "properties": properties, "additionalProperties": False})

    @property
    def argument_names(self) -> Collection[str]:
        names: Collection[str] = self._input.schema.get("properties", {})
        return names

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        model = Rights.of(self.model_mcp.site, exchange.request).of_label(self.model_mcp.label)
        if model is None or name != "ids":
            return NOTHING
        return complete_argument([model], name, {**arguments, "model": model.label})

    def is_available(self, request: MCPRequest) -> bool:
        """As the changelist offers it. Of an action that names no permission the site says what it needs."""
        admin = self._admin
        if Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label) is None:
            return False
        function = self._function_for(request)
        if function is None:
            return False
        # Whoever has rights on the model sees its list.
        is_decided = hasattr(function, "allowed_permissions") or self.model_mcp.site.action_permission == "view"
        return is_decided or admin.has_change_permission(request)

    def _function_for(self, request: MCPRequest) -> Callable[..., Any] | None:
        """The action as the changelist would run it for this user, since ``get_actions`` may remove or replace it."""
        actions = _offered(self._admin, request)
        return _as_tuple(actions[self.action_name])[0] if self.action_name in actions else None

    @property
    def _admin(self) -> ModelAdmin[Any]:
        admin = self.model_mcp.model_admin
        if admin is None:
            raise LookupError(f"{self.model_mcp.label} is no longer in the admin")
        return admin

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        arguments = self._input.without_blanks(arguments)
        if errors := self._input.errors(arguments) or _misused(arguments):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        request = exchange.request
        exchange.usage.model = self.model_mcp.label
        conditions, ids, token = arguments.get("filter"), arguments.get("ids", []), arguments.get("confirm")
        pages, needs_token = arguments.get("pages", []), not self.annotations.read_only
        if conditions:
            find = partial(of_filter, self.model_mcp, self._admin, request, conditions)
            asked = {"model": self.model_mcp.label, "filter": conditions}
            answers = Answers(exchange, [self.name, "filter", conditions], pages, is_confirmed=needs_token)
            with splitting.explained(Rights.of(self.model_mcp.site, request), asked):
                if pages:
                    return self._answer(exchange, find, answers, token)
                return self._act_once_shown(exchange, find, answers, token)
        find = partial(of_ids, self.model_mcp, self._admin, request, ids)
        named = sorted(map(str, ids))
        answers = Answers(exchange, [self.name, "ids", named], pages, is_confirmed=needs_token)
        if pages:
            return self._answer(exchange, find, answers, token)
        if token is not None or (len(ids) > _MANY and not self.annotations.read_only):
            return self._act_once_shown(exchange, find, answers, token)
        chosen = find()
        return self._act(exchange, lambda: chosen, answers)

    def _answer(self, exchange: Exchange, find: Callable[[], ChosenRows], answers: Answers, token: str | None) -> JSON:
        """Act with the answers to pages, the last of which the token confirms. Raises ToolError, TooSlow."""
        if not self.annotations.read_only:
            answers.read(token)
            nonces.forget_expired()

        def confirmed() -> ChosenRows:
            answers.claim()
            return find()

        # The pages before the last are sent once more in each call, so that whatever they write is rolled back.
        return self._act(exchange, confirmed, answers, nonces.database(), *_databases())

    def _act_once_shown(
        self, exchange: Exchange, find: Callable[[], ChosenRows], answers: Answers, token: str | None
    ) -> JSON:
        """Show the rows that an argument names, or act on those that the token confirms. Raises ToolError, TooSlow."""
        if token is None:
            found = find()
            acts_at_once = self.annotations.read_only and found.keys
            if acts_at_once:
                return self._act(exchange, lambda: found, answers)
            return self._show(exchange, answers.call, found)
        confirmation = confirmations.read(exchange, answers.call, token, again=_AGAIN)
        nonces.forget_expired()

        def confirmed() -> ChosenRows:
            # The claim is the first statement of the transaction: another process with the same token waits for it.
            confirmation.claim()
            found = find()
            changed = f"The rows have changed since: {len(found.keys)} match now."
            confirmation.check(_named(found.keys), changed)
            return found

        return self._act(exchange, confirmed, answers, nonces.database())

    def _show(self, exchange: Exchange, call: Sequence[Any], chosen: ChosenRows) -> JSON:
        """The rows, and the token that acts on them if there are any."""
        _, argument, what = call
        conditions = what if argument == "filter" else {}
        lines = preview(self.model_mcp, exchange.request, conditions, chosen, self.changes)
        if chosen.keys:
            token = confirmations.issue(exchange, call, _named(chosen.keys))
            minutes = confirmations.SECONDS // 60
            lines.append(
                f"To act on exactly these rows, call {self.name} within {minutes} minutes with the same {argument} and "
                f'"confirm": "{token}".'
            )
        return text_result("\n".join(lines))

    def _act(self, exchange: Exchange, choose: Callable[[], ChosenRows], answers: Answers, *databases: str) -> JSON:
        """Run the action on the rows, in a transaction on its database and on the others that are written to."""
        admin, request = self._admin, exchange.request
        function = self._function_for(request)
        rights = Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label)
        if function is None or rights is None:
            raise ToolError("You may not do this. Nothing was changed.")
        alias = router.db_for_write(self.model_mcp.model)
        written = WrittenRows(connections[alias], self.model_mcp.model)
        history = History(admin, exchange, alias, self.get_title(), is_kept=not self.annotations.read_only)
        browser: Any = None
        texts: RowTexts | None = None
        try:
            # An action that fails half-way must not leave half of its work behind.
            with ExitStack() as transactions:
                # The database of the action commits last: if that fails, a token is lost, but never used twice.
                for name in dict.fromkeys([alias, *databases, *history.databases]):
                    transactions.enter_context(transaction.atomic(using=name))
                # Called before whatever the project wants to do after the commit, which may fail.
                transaction.on_commit(partial(self._note_done, exchange), using=alias)
                chosen = choose()
                answers.rows = _named(chosen.keys)
                texts = RowTexts(rights, chosen.stored(alias), may_change=self.may_change)
                exchange.usage.change(self.model_mcp.label, chosen.keys)
                run = ActionRun(admin, request, self.action_name, function, chosen, rights, texts, alias)
                browser = self.browser(run)
                with connections[alias].execute_wrapper(written), history.watching(chosen), passing_session(request):
                    response = browser.run(answers)
                    about, files = read_response(request, admin, response, self.name)
                request = browser.request
                is_taken_back = transaction.get_rollback(using=alias)
                # An action that says that it failed may have written rows before.
                if not is_taken_back and (written.has_any or not read_messages(request)[1]):
                    history.write()
                if not is_taken_back and read_messages(request)[0]:
                    # What a page has said before was read before.
                    texts.read(anew=bool(answers.pages))
        except FormShown as shown:
            exchange.usage.changed.clear()
            return text_result(encode(shown.description).decode())
        except (PermissionDenied, ValidationError, IntegrityError, DataError) as error:
            if exchange.usage.is_done:
                raise RuntimeError("what should happen after the commit has failed") from error
            if isinstance(error, IntegrityError | DataError):
                logger.warning("The database refused the action %s", self.name, exc_info=True)
            [detail] = _without_texts(texts, [_detail_of(error)])
            raise ToolError(f"{detail} Nothing was changed.") from None
        except RuntimeError as error:
            if not is_nested_durable(error):
                raise
            raise ToolError(
                "This action opens a durable transaction (atomic(durable=True)), which cannot be within that of a "
                "call. A person can run it in the admin. Nothing was changed."
            ) from None
        finally:
            if browser is not None:
                browser.close()
        said, has_failed = read_messages(request)
        said = _without_texts(texts, said)
        if is_taken_back:
            said.append("The action took its own changes back: nothing was changed.")
        else:
            self._note_done(exchange)
            said += [f"Nothing was rolled back: the action wrote {written.describe()}."] if has_failed else []
        if not said and not files:
            said.append("Done; the admin said nothing.")
        # One text, since some agents read the first block alone.
        return {"content": [text_block("\n".join([*said, *about])), *files], "isError": has_failed}

    def _note_done(self, exchange: Exchange) -> None:
        exchange.usage.is_done = self.may_change


def _without_texts(texts: RowTexts | None, lines: list[str]) -> list[str]:
    return lines if texts is None else texts.named(lines)


def _detail_of(error: Exception) -> str:
    """Why an action was refused, for its agent."""
    if isinstance(error, ValidationError):
        return "; ".join(error.messages)
    return refused_by_database(error) if isinstance(error, IntegrityError | DataError) else "You may not do this."


def _named(keys: Iterable[Any]) -> list[str]:
    """The keys as a confirmation compares them, whatever their order."""
    return sorted(map(str, keys))


def _misused(arguments: JSON) -> list[FieldError]:
    """The errors of arguments that do not go together."""
    if ("ids" in arguments) == bool(arguments.get("filter")):
        return [field_error("ids", "give either ids or a filter that is not empty.")]
    if "confirm" in arguments and "pages" not in arguments and len(arguments.get("ids", ())) in range(1, _MANY + 1):
        return [field_error("confirm", f"goes with a filter, or with more than {_MANY} ids: fewer need none.")]
    return []


def _databases() -> Iterator[str]:
    """The databases to which models are written."""
    return (router.db_for_write(model) for model in apps.get_models())
