"""Actions of the admin as tools: what those on rows of the list and those on the page of one row have in common.

An action runs at once, or its rows are shown first and people agree, and it may answer with pages.
"""

from __future__ import annotations

import hashlib
import logging
import re
from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DataError, IntegrityError, connections, router, transaction
from django.utils.functional import cached_property
from django.utils.module_loading import import_string

from mcp_django.audit.lines import by_agent
from mcp_django.bridge.changes import applying, asked, confirmations
from mcp_django.bridge.changes.outcomes import refused_by_database
from mcp_django.bridge.changes.proposed import CONFIRM, REASON
from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.bridge.resources.completers import complete_argument
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import action_pages
from mcp_django.bridge.tools.action_pages import ActionRun, FormShown
from mcp_django.bridge.tools.action_responses import read_messages, read_response
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.history import History
from mcp_django.bridge.tools.results import structured_result, text_block, text_result
from mcp_django.bridge.tools.row_texts import RowTexts
from mcp_django.core.compat.connections import is_nested_durable
from mcp_django.core.db.rolling_back import written_databases
from mcp_django.core.db.written_rows import WrittenRows
from mcp_django.exceptions import FieldError, ToolError
from mcp_django.exchange.passing_session import passing_session
from mcp_django.models import Call
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import Admit
    from mcp_django.bridge.declared.consent import Consent
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.bridge.tools.proposed_action import ProposedAction
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

_MAX_NAME = 64
_NAME_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]+")


def tool_name(*parts: str) -> str:
    """``app_model_action`` within ``^[a-zA-Z0-9_-]{1,64}$``. A name that had to be changed or cut ends in its hash."""
    whole = "_".join(parts)
    safe = _NAME_UNSAFE.sub("_", whole)
    if safe == whole and len(safe) <= _MAX_NAME:
        return safe
    mark = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{safe[: _MAX_NAME - len(mark) - 1]}_{mark}"


class ActingTool(BaseTool):
    """An action of a ModelAdmin on rows that an agent names."""

    # We cannot know which actions change data, so an administrator must switch each of them on.
    enabled_by_default = False
    on_failure = "Nothing was changed. The server's log has the details."
    #: The path of the class that drives the action through its pages: it is imported with the first action that runs.
    browser: ClassVar[str]
    #: Whether the history has an entry of ours for a row that the action has logged itself.
    logs_again: ClassVar[bool] = False

    model_mcp: ModelMCP
    #: The name of the action in the admin.
    action_name: str
    #: The columns that it changes, if known.
    changes: tuple[str, ...] = ()
    consent: Consent = "preview"
    #: How many pages it shows before it acts. Nobody has to agree to being shown them.
    shows_pages: int = 0
    #: The user needs one of these, as the ModelAdmin checks them (see ``is_available``).
    permissions: list[str]

    @property
    def argument_names(self) -> Collection[str]:
        names: Collection[str] = self._input.schema.get("properties", {})
        return names

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        model = Rights.of(self.model_mcp.site, exchange.request).of_label(self.model_mcp.label)
        if model is None or name not in ("id", "ids"):
            return NOTHING
        return complete_argument([model], name, {**arguments, "model": model.label})

    @property
    def about_call(self) -> Collection[str]:
        return (CONFIRM, REASON)

    def needs_people(self, request: MCPRequest) -> bool:
        """Whether people may have to agree to a call, so that the rows are always shown first."""
        return self.may_change and asked.needs_people(request, self.name, self.consent)

    def _schema(self, request: MCPRequest) -> JSON:
        """The schema of the arguments, with those that confirm a call where people may have to agree to it."""
        schema = self._input.schema
        return asked.with_confirmation(schema, self.about_call) if self.needs_people(request) else schema

    @cached_property
    def _confirmed_input(self) -> Schema:
        return Schema(asked.with_confirmation(self._input.schema, self.about_call))

    @property
    def _admin(self) -> ModelAdmin[Any]:
        admin = self.model_mcp.model_admin
        if admin is None:
            raise LookupError(f"{self.model_mcp.label} is no longer in the admin")
        return admin

    # What the two kinds of actions have of their own.

    @abstractmethod
    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> ProposedAction:
        """Find the rows of the arguments of a call. Raises ToolError and TooSlow."""

    @abstractmethod
    def start(self, request: MCPRequest, chosen: ChosenRows) -> Any:
        """With what a run on these rows begins; None where the admin does not offer it to this user."""

    @abstractmethod
    def _is_few(self, arguments: JSON) -> bool:
        """Whether the rows need not be shown first."""

    @abstractmethod
    def _misused(self, arguments: JSON, *, needs_people: bool) -> list[FieldError]:
        """The errors of arguments that do not go together."""

    @abstractmethod
    def _named_by(self, arguments: JSON) -> str:
        """The argument that names the rows."""

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        needs_people = self.needs_people(exchange.request)
        check = self._confirmed_input if needs_people else self._input
        arguments = check.without_blanks(arguments)
        if errors := check.errors(arguments) or self._misused(arguments, needs_people=needs_people):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        exchange.usage.model = self.model_mcp.label
        pages = arguments.get("pages", [])
        if needs_people and len(pages) < self.shows_pages:
            return self._page_shown(exchange, arguments)
        if self.annotations.read_only or self._is_unseen(exchange.request, arguments):
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

    def acts_at_once(self, request: MCPRequest, arguments: JSON) -> bool:
        return self.may_change and (CONFIRM in arguments or self._is_unseen(request, arguments))

    def _is_unseen(self, request: MCPRequest, arguments: JSON) -> bool:
        """Whether the rows of a call are not shown first."""
        return not self.needs_people(request) and self._is_few(arguments) and not arguments.get("pages")

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
        exchange.usage.outcome = Call.Outcome.PREVIEWED.value
        proposed, description = shown.proposed, shown.description
        if not self.annotations.read_only:
            bound, state = proposed.arguments, proposed.state_with(description)
            description = {**description, CONFIRM: confirmations.issue(exchange, [self.name, bound], state)}
        return text_result(encode(description).decode())

    def _shown(self, arguments: JSON, previewed: JSON) -> JSON:
        """The rows in words, and the token that acts on them if there are any."""
        lines = previewed["lines"]
        if previewed["count"]:
            minutes, named_by = confirmations.SECONDS // 60, self._named_by(arguments)
            lines.append(
                f"To act on exactly these rows, call {self.name} within {minutes} minutes with the same {named_by} and "
                f'"confirm": "{previewed[CONFIRM]}".'
            )
            lines += previewed["notes"]
        return text_result("\n".join(lines))

    def act(self, exchange: Exchange, proposed: ProposedAction, by: str) -> JSON:
        """Run the action on the rows, in a transaction on its database and on the others that are written to.

        ``by`` says in the history who did. Raises FormShown where it answers with a page that nobody has answered.
        """
        admin, request = self._admin, exchange.request
        start = self.start(request, proposed.chosen)
        rights = Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label)
        if start is None or rights is None:
            raise ToolError("You may not do this. Nothing was changed.", reason="NO_PERMISSION")
        alias = router.db_for_write(self.model_mcp.model)
        written = WrittenRows(connections[alias], self.model_mcp.model)
        message, chosen = f"{self.get_title()}: {by}", proposed.chosen
        is_kept = not self.annotations.read_only
        history = History(admin, request, alias, message, is_kept=is_kept, logs_again=self.logs_again)
        browser: Any = None
        texts: RowTexts | None = None
        try:
            # An action that fails half-way must not leave half of its work behind.
            with ExitStack() as transactions:
                # The database of the action commits last.
                # What pages before the last one write is rolled back, in whichever database it is.
                others = written_databases() if proposed.pages or proposed.is_trial else ()
                for name in dict.fromkeys([alias, *others, *history.databases]):
                    transactions.enter_context(transaction.atomic(using=name))
                # Called before whatever the project wants to do after the commit, which may fail.
                transaction.on_commit(partial(self._note_done, exchange), using=alias)
                texts = RowTexts(rights, chosen.stored(alias), may_change=self.may_change)
                if not exchange.is_confirmed:
                    exchange.usage.change(self.model_mcp.label, chosen.keys)
                run = ActionRun(admin, request, start, chosen, rights, texts, alias)
                browser = import_string(self.browser)(run)
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
            raise ToolError(f"{detail} Nothing was changed.", reason=_reason_of(error)) from None
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


def _reason_of(error: Exception) -> str:
    """What the audit trail calls the refusal; empty for what the action itself has against it."""
    if isinstance(error, IntegrityError | DataError):
        return "DATABASE_REFUSED"
    return "NO_PERMISSION" if isinstance(error, PermissionDenied) else ""


def _detail_of(error: Exception) -> str:
    """Why an action was refused, for its agent."""
    if isinstance(error, ValidationError):
        return "; ".join(error.messages)
    return refused_by_database(error) if isinstance(error, IntegrityError | DataError) else "You may not do this."
