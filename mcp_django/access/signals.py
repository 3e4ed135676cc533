"""What administrators change takes effect in every process: tokens, users, groups, permissions, tools, prompts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from django.utils import timezone

from mcp_django.access import overrides
from mcp_django.access.authentication import principals
from mcp_django.conf import get_conf
from mcp_django.events.transaction import ACCESS, ACCESS_OF, note_control

if TYPE_CHECKING:
    from mcp_django.models import AdminOverride


def connect() -> None:
    """Connect the receivers, each to its own senders."""
    from mcp_django.models import AccessToken, Prompt, Tool

    user = get_user_model()
    for sender in (AccessToken, Group, Permission, user):
        post_save.connect(_access_changed, sender=sender, dispatch_uid="mcp_django.access")
        post_delete.connect(_access_changed, sender=sender, dispatch_uid="mcp_django.access")
    for name in ("groups", "user_permissions"):
        through = getattr(getattr(user, name, None), "through", None)
        if through is not None:
            m2m_changed.connect(_grants_changed, sender=through, dispatch_uid="mcp_django.access")
    m2m_changed.connect(_grants_changed, sender=Group.permissions.through, dispatch_uid="mcp_django.access")
    pre_save.connect(_note_password, sender=user, dispatch_uid="mcp_django.password")
    post_save.connect(_password_changed, sender=user, dispatch_uid="mcp_django.password")
    for model in (Tool, Prompt):
        post_save.connect(_switch_changed, sender=model, dispatch_uid="mcp_django.switches")
        post_delete.connect(_switch_changed, sender=model, dispatch_uid="mcp_django.switches")
        m2m_changed.connect(
            partial(_groups_changed, model), sender=model.groups.through, weak=False, dispatch_uid="mcp_django.switches"
        )


def _access_changed(sender: Any, instance: Any, using: str, **kwargs: Any) -> None:
    if kwargs.get("created") or kwargs.get("update_fields") == frozenset({"last_login"}):
        return  # Nobody has read what is new, and a login changes no right.
    _tell_access(using, _users_of(instance))


def _grants_changed(
    sender: Any, *, instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, using: str, **kwargs: Any
) -> None:
    """Groups or permissions were given or taken away: by the side of the user, or by the other one."""
    if not action.startswith("post_"):
        return
    by_keys = reverse and pk_set is not None and issubclass(model, get_user_model())
    _tell_access(using, set(pk_set) if by_keys else _users_of(instance))


def _users_of(instance: Any) -> set[Any] | None:
    """The keys of the users whom the row concerns; None: it may concern any of them."""
    from mcp_django.models import AccessToken

    if isinstance(instance, AccessToken):
        return {instance.user_id}
    return {instance.pk} if isinstance(instance, get_user_model()) else None


def _tell_access(using: str, users: set[Any] | None) -> None:
    """What the users may do has changed, or what anybody may do."""
    principals.clear()
    overrides.forget()
    for control in [ACCESS] if users is None else [f"{ACCESS_OF}{key}" for key in users]:
        note_control(using, control)


def _switch_changed(sender: type[AdminOverride], using: str, **kwargs: Any) -> None:
    """What an administrator said of a tool or a prompt: their lists are no longer what they were."""
    overrides.forget()
    note_control(using, sender.LIST)


def _groups_changed(
    switched: type[AdminOverride],
    /,
    *,
    instance: Any,
    action: str,
    reverse: bool,
    pk_set: Any,
    using: str,
    **kwargs: Any,
) -> None:
    """What has groups is restricted to them until an administrator takes the last one away.

    A group that is deleted takes itself away without this signal: its tool must not open to everybody by that.
    """
    if not action.startswith("post_"):
        return
    rows: Any = switched._default_manager.using(using)
    changed = rows.filter(pk__in=pk_set or ()) if reverse else rows.filter(pk=instance.pk)
    for row in changed:
        rows.filter(pk=row.pk).update(restricted=row.groups.exists())
    _switch_changed(switched, using)


def _note_password(sender: Any, instance: Any, raw: bool, using: str, update_fields: Any, **kwargs: Any) -> None:
    """Before a user is saved: whether that changes the password."""
    instance._mcp_new_password = False
    if raw or instance._state.adding or not hasattr(instance, "password"):
        return
    if update_fields is not None and "password" not in update_fields:
        return
    if update_fields == frozenset({"password"}) and getattr(instance, "_password", None) is None:
        return  # A login that only strengthens the hash saves just that.
    stored = sender._base_manager.using(using).filter(pk=instance.pk).values_list("password", flat=True).first()
    instance._mcp_new_password = stored != instance.password


def _password_changed(sender: Any, instance: Any, using: str, **kwargs: Any) -> None:
    """A new password, or none any more, revokes the user's tokens."""
    from mcp_django.models import AccessToken

    if getattr(instance, "_mcp_new_password", False) and get_conf().PASSWORD_CHANGE_REVOKES:
        AccessToken.objects.filter(user=instance.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
        # Once more: outside of a transaction it was told before the update, and may have been read again since.
        _tell_access(using, {instance.pk})
