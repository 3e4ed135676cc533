"""Lines of the audit trail for what people do: to tokens, grants, tools, prompts and changes that wait for them.

And for logins that were refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import router, transaction

from mcp_django.audit.lines import Line, line, user
from mcp_django.audit.recorder import recorder
from mcp_django.conf import get_conf
from mcp_django.exchange.addresses import address_in
from mcp_django.models import AccessToken, AdminOverride, Call, Change, Grant, Lending, Restriction, TokenTemplate
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable

if TYPE_CHECKING:
    from django.http import HttpRequest

#: The request of the admin that makes the changes of this context, where one does.
_acting: ContextVar[HttpRequest | None] = ContextVar("mcp_django_acting", default=None)
#: The name of the command that makes the changes of this context.
_command: ContextVar[str] = ContextVar("mcp_django_command", default="")


@contextmanager
def acting(request: HttpRequest) -> Iterator[None]:
    """Changes within the block are made by the request's user."""
    token = _acting.set(request)
    try:
        yield
    finally:
        _acting.reset(token)


@contextmanager
def commanding(command: str) -> Iterator[None]:
    """Changes within the block are made by this command of ``manage.py``."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def note_token(token: AccessToken, change: str, using: str) -> None:
    """Write down what was done to a token, once its transaction is committed: ``created``, ``revoked``, and so on."""
    about = {"kind": Call.Kind.TOKEN.value, "token_id": token.pk, "token_name": printable(str(token))}
    # A token and its successors have the same line.
    values = {"owner": str(token.user_id), "line": str(token.line)}
    _note(using, reason=change, values=encode(values).decode(), **about)


def note_template(template: TokenTemplate, change: str, using: str) -> None:
    """As ``note_token``, of a template for tokens: ``template created``, ``template changed``, ``template deleted``."""
    values = encode({"scopes": " ".join(template.scopes)}).decode()
    about = {"kind": Call.Kind.TOKEN.value, "token_name": printable(template.name)}
    about |= {"model": template._meta.label_lower}
    _note(using, reason=f"template {change}", values=values, **about)


def note_grant(grant: Grant, change: str, using: str, **values: Any) -> None:
    """As ``note_token``, of a grant of an OAuth client: ``granted``, ``refreshed``, ``ended: …``."""
    about = {"kind": Call.Kind.TOKEN.value, "token_name": printable(str(grant)), "client_id": grant.client}
    # The grant's user, unless ``_note`` finds another person who ends it in the admin.
    about |= user(grant.user)
    told = {"owner": str(grant.user_id), "line": str(grant.line), "grant": str(grant.pk), **values}
    _note(using, reason=change, values=encode(told).decode(), **about)


def note_lending(lending: Lending, change: str, using: str) -> None:
    """As ``note_token``, of scopes that a credential was lent: ``lent``, or ``lending ended`` before its time."""
    about = {"kind": Call.Kind.TOKEN.value, **user(lending.user)}
    told = {"owner": str(lending.user_id), "line": str(lending.lineage), "scopes": " ".join(lending.scopes)}
    told |= {"until": lending.until.isoformat(), "agreed_by": lending.agreed_by}
    if lending.grant_id is not None:
        told["grant"] = str(lending.grant_id)
    _note(using, reason=change, values=encode(told).decode(), **about)


def note_consent(client: str, name: str, decision: str, **values: str) -> None:
    """Write down how a person answered a client that asked for a grant: ``agreed`` or ``declined``."""
    about = {"kind": Call.Kind.TOKEN.value, "client_id": client, "token_name": printable(name)}
    _note(router.db_for_write(Call), reason=decision, values=encode(values).decode() if values else "", **about)


def count_refusal(site: str, request: HttpRequest, reason: str) -> None:
    """Count a request to the authorization server that was refused, by its address, in the present minute."""
    if get_conf().AUDIT != "off":
        named = Call.Kind.TOKEN.value, Call.Outcome.REFUSED.value
        recorder.count(site, *named, "http", reason, address_in(request.META))


def note_override(override: AdminOverride, change: str, using: str) -> None:
    """Write down what an administrator decided about a tool or a prompt."""
    model = override._meta.label_lower
    _note(using, kind=Call.Kind.SWITCH.value, reason=change, name=override.name, model=model, site=override.site)


def note_restriction(restriction: Restriction, using: str, *, closed: bool) -> None:
    """Write down that an administrator switched a model or a field off or on, or paused somebody or ended the pause."""
    words = ("resumed", "paused") if restriction.is_pause else ("on", "off")
    about = {"method": restriction.kind, "name": restriction.name, "model": restriction._meta.label_lower}
    if restriction.is_pause and closed:
        about["values"] = encode({"why": restriction.reason}).decode()
    _note(using, kind=Call.Kind.SWITCH.value, reason=words[closed], site=restriction.site, **about)


def note_ending(what: str, site: str, name: str, owner: str) -> None:
    """Write down that somebody ended a session or a task in the admin: ``what`` is "session" or "task"."""
    values = encode({"owner": owner}).decode()
    about = {"kind": Call.Kind.ENDING.value, "method": f"end of a {what}", "reason": "ended", "name": name}
    _note(router.db_for_write(Call), site=site, values=values, **about)


def note_decision(change: Change, decision: str, uri: str, using: str) -> None:
    """As ``note_token``, of a person who has ``approved``, ``rejected`` or ``withdrawn`` a change that waits."""
    values = encode({"owner": str(change.user_id)}).decode()
    about = {"kind": Call.Kind.DECISION.value, "reason": decision, "model": change.model, "uri": uri}
    _note(using, site=change.site, values=values, **about)


def _note(using: str, **values: Any) -> None:
    if get_conf().AUDIT == "off":
        return
    request, at = _acting.get(), time.time()
    if request is not None:
        values |= {"transport": "admin", "address": address_in(request.META)}
        values |= user(request.user)
    elif command := _command.get():
        values |= {"transport": "command", "method": f"manage.py {command}"}
    else:
        values["transport"] = "server"
    transaction.on_commit(partial(recorder.put, (_describe, at, values)), using=using)


def _describe(at: float, values: dict[str, Any]) -> Line:
    return line(at, outcome=Call.Outcome.DONE.value, **values)
