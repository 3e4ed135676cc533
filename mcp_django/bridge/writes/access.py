"""What a principal may write: which models, and what may be done with their rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth import get_permission_codename

from mcp_django.access.permissions import ALLOWED, Decision, check_scopes, decide
from mcp_django.bridge.declared import consent
from mcp_django.bridge.declared.every_object import allows_some
from mcp_django.bridge.declared.options import CONSENT, OPERATIONS, Operation
from mcp_django.bridge.declared.project_hooks import hooks_by_object
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.reading.rows import of_key
from mcp_django.core.hooks import call_hook
from mcp_django.exchange.scopes import WRITE, of_model
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from django.contrib.admin import ModelAdmin

    from mcp_django.bridge.changes.effects import Effect
    from mcp_django.bridge.declared.consent import Consent, Considered, Needs
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
    from mcp_django.exchange.requests import MCPRequest

#: Operation → the hook of the ModelAdmin that allows it.
HOOKS: Mapping[Operation, str] = {
    "create": "has_add_permission",
    "update": "has_change_permission",
    "delete": "has_delete_permission",
}
#: The hooks that are given a row.
_OF_ROWS = (HOOKS["update"], HOOKS["delete"])
#: Operation → the word for it in the names of permissions.
VERBS: Mapping[Operation, str] = {"create": "add", "update": "change", "delete": "delete"}


def may_write(model: ModelRights, operation: Operation, *, scope: str = WRITE) -> bool:
    """Whether rows of the model may be written in this way: by its options, by its ModelAdmin, and by the scopes.

    Nobody writes what cannot be read: what is there is shown before it is changed. A hook of the project that may allow
    it of some row allows it: the admin's view then asks it with the row. ``scope``: the one that the credential must
    have. With the scope to read, this says whether the user may write, even if the credential may not.
    """
    return decision(model, operation, scope=scope) is ALLOWED


def decision(model: ModelRights, operation: Operation, *, scope: str = WRITE) -> Decision:
    """As ``may_write``, and if not, why: for administrators."""
    admin = model.model_mcp.model_admin
    if admin is None:
        return Decision.NOT_WRITABLE
    if not ways.is_open(model, "record"):
        return Decision.SWITCHED_OFF
    if operation not in model.ask_hook("get_writable", ()):
        return Decision.NOT_WRITABLE
    needed, hook = of_model(model.label, scope), partial(_allows, model.model_mcp, admin, HOOKS[operation])
    return decide(model.rights.request, needed, None, hook, model.model_mcp, HOOKS[operation])


def _allows(declared: ModelMCP, admin: ModelAdmin[Any], hook: str, request: MCPRequest) -> bool:
    if not admin.admin_site.has_permission(request):
        return False
    if hook in _OF_ROWS and declared.object_permissions:
        return allows_some(admin, request, hook)
    return bool(getattr(admin, hook)(request))


def operations(model: ModelRights) -> list[Operation]:
    """What may be done with rows of the model, or with some of them."""
    return [one for one in OPERATIONS if may_write(model, one)]


def decides_by_row(model: ModelRights, operation: Operation) -> bool:
    """Whether a hook of the project may allow it of one row and not of another."""
    return bool(hooks_by_object(model.model_mcp.model_admin, (HOOKS[operation],)))


def writable_models(rights: Rights, operation: Operation | None = None) -> list[ModelRights]:
    """The models of which rows may be written, in this way or in any, in the order of their labels."""
    ways_to_write = OPERATIONS if operation is None else (operation,)
    return [model for model in rights.models() if any(may_write(model, one) for one in ways_to_write)]


def find(rights: Rights, label: str, operation: Operation | None = None) -> ModelRights:
    """The model of a name. Raises InvalidQuery with those that may be written, and InsufficientScope."""
    model = rights.of_label(label.lower())
    operations: Sequence[Operation] = OPERATIONS if operation is None else (operation,)
    if model is not None and any(may_write(model, one) for one in operations):
        return model
    check_scopes(rights.request, lambda: _could_write(rights, label.lower(), operations))
    allowed = [one.label for one in writable_models(rights, operation)]
    what = "model that you may write" if operation is None else f"model of which you may {operation} rows"
    raise InvalidQuery.one("model", unknown_name(what, label, allowed), label)


def _could_write(rights: Rights, label: str, operations: Sequence[Operation]) -> bool:
    """Whether it would be allowed with more scopes. Rights are read anew: they depend on the scopes."""
    model = type(rights).of(rights.site, rights.request).of_label(label)
    return model is not None and any(may_write(model, one) for one in operations)


def consent_of(model: ModelRights, operation: Operation) -> Consent:
    """What the operation needs besides a confirmed preview. If the project's hook fails, other people must approve."""
    found: Mapping[Operation, Consent] = model.ask_hook("get_consent", {})
    return found.get(operation, "approve")


def needs_of(model: ModelRights, operation: Operation, considered: Callable[[], Iterable[Considered]]) -> Needs:
    """What a change needs: the stricter of what is declared and, where a rule says no, of what holds without one."""
    return consent.needs_of(consent_of(model, operation), CONSENT[operation], considered)


def needs_unseen(rights: Rights, model: Any, operation: Operation) -> Needs:
    """What a change needs for rows that the agent may not see: approval, where it may be declared for some of them.

    Otherwise a credential that sees less would need less.
    """
    declared = rights.site.models.get(rights.label_of(model))
    if declared is None:
        return consent.Needs()
    found: Mapping[Operation, Consent] = call_hook(
        lambda: declared.get_consent(rights.request), {}, declared, "get_consent"
    )
    needed = found.get(operation, "approve")
    is_approved = isinstance(needed, consent.Approval) or consent.Level.named(needed) is consent.Level.APPROVE
    return consent.APPROVED if is_approved else consent.Needs()


def admin_of(model: ModelRights) -> ModelAdmin[Any]:
    """The ModelAdmin through which the model is written. Raises LookupError, as where it was unregistered meanwhile."""
    admin = model.model_mcp.model_admin
    if admin is None:
        raise LookupError(f"{model.label} is no longer in the admin")
    return admin


def may_do_all(rights: Rights, label: str, parts: Iterable[Effect]) -> bool:
    """Whether a person with these rights may do to rows of the model what a change does to them.

    Of a row that the person does not see, it is asked in general.
    """
    main = rights.of_label(label)
    return main is not None and all(_may_do(main, part) for part in parts)


def _may_do(main: ModelRights, part: Effect) -> bool:
    operation: Any = part.change
    user: Any = main.rights.request.user
    if part.inline:
        opts = apps.get_model(part.model)._meta
        codename = get_permission_codename(VERBS[operation], opts)
        return bool(opts.auto_created) or bool(user.has_perm(f"{opts.app_label}.{codename}"))
    if not may_write(main, operation):
        return False
    found = of_key(main, part.key) if part.key else None
    row = None if found is None else found[1].first()
    hook = HOOKS[operation]
    return row is None or call_hook(
        lambda: bool(getattr(admin_of(main), hook)(main.rights.request, row)), False, main.model_mcp, hook
    )
