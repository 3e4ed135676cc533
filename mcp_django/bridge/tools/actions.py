"""Admin actions as tools. They run through the ModelAdmin, on its queryset, if its permission checks allow."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from django.apps import apps
from django.contrib import admin as contrib_admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.actions import delete_selected
from django.core.exceptions import ImproperlyConfigured, PermissionDenied, ValidationError
from django.db import DataError, IntegrityError, connections, router, transaction
from django.utils.functional import cached_property

from mcp_django.audit.lines import by_agent
from mcp_django.bridge.changes import applying, asked, confirmations
from mcp_django.bridge.changes.outcomes import refused_by_database
from mcp_django.bridge.changes.proposed import CONFIRM, REASON
from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.bridge.declared.consent import CONSENTS, is_consent
from mcp_django.bridge.resources.completers import complete_argument
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.reading import splitting
from mcp_django.bridge.tools import action_pages
from mcp_django.bridge.tools.action_pages import ActionRun, FormShown
from mcp_django.bridge.tools.action_responses import read_messages, read_response
from mcp_django.bridge.tools.action_rows import MAX_ACTION_IDS, finds_rows, of_filter, of_ids
from mcp_django.bridge.tools.base import Annotations, BaseTool
from mcp_django.bridge.tools.history import History
from mcp_django.bridge.tools.proposed_action import ProposedAction
from mcp_django.bridge.tools.results import structured_result, text_block, text_result
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
    from mcp_django.bridge.changes.proposed import Admit
    from mcp_django.bridge.declared.consent import Consent
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
#: More ids than these are shown first, as the rows of a filter are.
_MANY = 20
_CONFIRM: JSON = {
    "type": "string",
    "maxLength": confirmations.MAX_CHARS,
    "description": "The token given with these rows.",
}
_NAME_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]+")


def action(
    *,
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
    changes: Collection[str] = (),
    consent: Consent = "preview",
    shows_page: bool | int = False,
) -> Callable[[F], F]:
    """Declare what an admin action does to the data. This must be the outermost decorator.

    The function itself does not show it, so an action without this decorator counts as destructive.

    The arguments become ``readOnlyHint``, ``destructiveHint`` and ``idempotentHint`` (2026-07-28
    schema#toolannotations). A ``read_only`` action is never destructive and always idempotent. It needs the scope
    ``read`` instead of ``actions``, runs on the rows of a filter without ``confirm``, and writes no history.

    ``changes`` names the fields that the action changes. Its preview says what is in them now.

    ``consent`` is "preview", "ask", "approve" or an ``Approval``. With more than "preview" the rows are shown first,
    and the user of the agent or other people must agree. Raises ImproperlyConfigured for any other value.

    ``shows_page``: the action answers with a page first, or with so many pages, and acts only after them. Then these
    are shown before anybody agrees, and people agree to the answers. What acts before its page must not say so.
    """
    if not is_consent(consent):
        raise ImproperlyConfigured(f"consent= of an action must be {CONSENTS}, and not {consent!r}.")
    if read_only and consent != "preview":
        raise ImproperlyConfigured("An action that only reads needs no consent=.")

    def decorate(function: F) -> F:
        function.mcp_annotations = Annotations(  # type: ignore[attr-defined]
            read_only=read_only, destructive=destructive and not read_only, idempotent=idempotent or read_only
        )
        function.mcp_changes = tuple(changes)  # type: ignore[attr-defined]
        function.mcp_consent = consent  # type: ignore[attr-defined]
        function.mcp_shows_pages = int(shows_page)  # type: ignore[attr-defined]
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
        self.consent: Consent = getattr(function, "mcp_consent", "preview")
        #: How many pages it shows before it acts. Nobody has to agree to being shown them.
        self.shows_pages: int = getattr(function, "mcp_shows_pages", int(function is delete_selected))
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
        if self.needs_people(request):
            schema = asked.with_confirmation(schema, self.about_call)
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
            properties[CONFIRM] = _CONFIRM
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

    @property
    def about_call(self) -> Collection[str]:
        return (CONFIRM, REASON)

    def needs_people(self, request: MCPRequest) -> bool:
        """Whether people may have to agree to a call, so that the rows are always shown first."""
        return self.may_change and asked.needs_people(request, self.name, self.consent)

    @cached_property
    def _confirmed_input(self) -> Schema:
        return Schema(asked.with_confirmation(self._input.schema, self.about_call))

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
        needs_people = self.needs_people(exchange.request)
        check = self._confirmed_input if needs_people else self._input
        arguments = check.without_blanks(arguments)
        if errors := check.errors(arguments) or _misused(arguments, needs_people=needs_people):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        exchange.usage.model = self.model_mcp.label
        pages = arguments.get("pages", [])
        is_few = len(arguments.get("ids", ())) in range(1, _MANY + 1)
        if needs_people and len(pages) < self.shows_pages:
            return self._page_shown(exchange, arguments)
        if not needs_people and (self.annotations.read_only or (is_few and not pages)):
            return self._act_at_once(exchange, arguments)
        if pages and CONFIRM not in arguments:
            raise confirmations.refused(
                f"is needed: it comes with the page that the last of pages is for. {action_pages.AGAIN}"
            )
        try:
            answer, made = asked.preview_or_change(exchange, self, arguments, how="")
        except FormShown as shown:
            if needs_people and not self.shows_pages:
                raise ToolError(
                    "The action answers with a page, which people cannot agree to before it is answered. Nothing was "
                    "changed. Declare @mcp_django.action(shows_page=True)."
                ) from None
            return self._form(exchange, shown)
        if made is not None:
            return made
        return self._shown(arguments, answer) if answer["status"] == "preview" else structured_result(answer)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> ProposedAction:
        """Find the rows of the arguments of a call. Raises ToolError and TooSlow."""
        request, conditions, ids = exchange.request, arguments.get("filter"), arguments.get("ids", [])
        pages = arguments.get("pages", [])
        if not conditions:
            chosen = of_ids(self.model_mcp, self._admin, request, ids)
            return ProposedAction(self, exchange, chosen, {"ids": sorted(map(str, ids))}, pages)
        asked_for = {"model": self.model_mcp.label, "filter": conditions}
        with splitting.explained(Rights.of(self.model_mcp.site, request), asked_for):
            chosen = of_filter(self.model_mcp, self._admin, request, conditions)
        return ProposedAction(self, exchange, chosen, {"filter": conditions}, pages)

    def _act_at_once(self, exchange: Exchange, arguments: JSON) -> JSON:
        proposed = self.propose(exchange, arguments)
        if not proposed.keys:
            return text_result("\n".join(proposed.preview()["lines"]))
        try:
            return self.act(exchange, proposed, by_agent(exchange))
        except FormShown as shown:
            return self._form(exchange, shown)

    def _page_shown(self, exchange: Exchange, arguments: JSON) -> JSON:
        """A page that nobody has to agree to: it is described, and all is rolled back. Raises ToolError."""
        proposed = cast("ProposedAction", applying.propose(exchange, self, arguments))
        return self._form(exchange, FormShown(proposed, proposed.page_after(proposed.pages)))

    def _form(self, exchange: Exchange, shown: FormShown) -> JSON:
        """A page of the action, with the token for the answer to it."""
        proposed, description = shown.proposed, shown.description
        if not self.annotations.read_only:
            bound, state = proposed.arguments, proposed.state_with(description)
            description = {**description, CONFIRM: confirmations.issue(exchange, [self.name, bound], state)}
        return text_result(encode(description).decode())

    def _shown(self, arguments: JSON, previewed: JSON) -> JSON:
        """The rows in words, and the token that acts on them if there are any."""
        lines = previewed["lines"]
        if previewed["count"]:
            minutes = confirmations.SECONDS // 60
            argument = "filter" if arguments.get("filter") else "ids"
            lines.append(
                f"To act on exactly these rows, call {self.name} within {minutes} minutes with the same {argument} and "
                f'"confirm": "{previewed[CONFIRM]}".'
            )
            lines += previewed["notes"]
        return text_result("\n".join(lines))

    def act(self, exchange: Exchange, proposed: ProposedAction, by: str) -> JSON:
        """Run the action on the rows, in a transaction on its database and on the others that are written to.

        ``by`` says in the history who did. Raises FormShown where it answers with a page that nobody has answered.
        """
        admin, request = self._admin, exchange.request
        function = self._function_for(request)
        rights = Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label)
        if function is None or rights is None:
            raise ToolError("You may not do this. Nothing was changed.")
        alias = router.db_for_write(self.model_mcp.model)
        written = WrittenRows(connections[alias], self.model_mcp.model)
        message, chosen = f"{self.get_title()}: {by}", proposed.chosen
        history = History(admin, request, alias, message, is_kept=not self.annotations.read_only)
        browser: Any = None
        texts: RowTexts | None = None
        try:
            # An action that fails half-way must not leave half of its work behind.
            with ExitStack() as transactions:
                # The database of the action commits last.
                # What pages before the last one write is rolled back, in whichever database it is.
                others = _databases() if proposed.pages else ()
                for name in dict.fromkeys([alias, *others, *history.databases]):
                    transactions.enter_context(transaction.atomic(using=name))
                # Called before whatever the project wants to do after the commit, which may fail.
                transaction.on_commit(partial(self._note_done, exchange), using=alias)
                texts = RowTexts(rights, chosen.stored(alias), may_change=self.may_change)
                if not exchange.is_confirmed:
                    exchange.usage.change(self.model_mcp.label, chosen.keys)
                run = ActionRun(admin, request, self.action_name, function, chosen, rights, texts, alias)
                browser = self.browser(run)
                with connections[alias].execute_wrapper(written), history.watching(chosen), passing_session(request):
                    response = browser.run(proposed)
                    about, files = read_response(request, admin, response, self.name)
                request = browser.request
                is_taken_back = transaction.get_rollback(using=alias)
                # An action that says that it failed may have written rows before.
                if not is_taken_back and (written.has_any or not read_messages(request)[1]):
                    history.write()
                if not is_taken_back and read_messages(request)[0]:
                    # What a page has said before was read before.
                    texts.read(anew=bool(proposed.pages))
        except FormShown:
            exchange.usage.changed.clear()
            raise
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
            if exchange.is_confirmed:
                raise ToolError("\n".join(said))
        else:
            # That of a change is done once its own transaction has ended.
            if not exchange.is_confirmed:
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


def _misused(arguments: JSON, *, needs_people: bool) -> list[FieldError]:
    """The errors of arguments that do not go together."""
    if ("ids" in arguments) == bool(arguments.get("filter")):
        return [field_error("ids", "give either ids or a filter that is not empty.")]
    takes_confirm = needs_people or "pages" in arguments
    if not takes_confirm and CONFIRM in arguments and len(arguments.get("ids", ())) in range(1, _MANY + 1):
        return [field_error(CONFIRM, f"goes with a filter, or with more than {_MANY} ids: fewer need none.")]
    return []


def _databases() -> Iterator[str]:
    """The databases to which models are written."""
    return (router.db_for_write(model) for model in apps.get_models())
