"""Receivers that let changes by administrators take effect in every process.

They concern tokens, users, groups, permissions, tools, prompts and restrictions. What they need is imported once one
is called, since they are connected at every start of the project.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.utils import timezone

from mcp_django.access import overrides
from mcp_django.conf import get_conf
from mcp_django.core.compat.users import has_new_password
from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.transaction import note_control

if TYPE_CHECKING:
    from mcp_django.models import AccessToken, AdminOverride, Grant, Restriction, TokenTemplate


def connect() -> None:
    """Connect the receivers, each to its own senders."""
    from mcp_django.models import AccessToken, Prompt, Restriction, TokenTemplate, Tool
    from mcp_django.models.grants import grant_ended

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
    grant_ended.connect(_grant_ended, dispatch_uid="mcp_django.access")
    post_save.connect(_token_saved, sender=AccessToken, dispatch_uid="mcp_django.trail")
    post_delete.connect(_token_deleted, sender=AccessToken, dispatch_uid="mcp_django.trail")
    post_save.connect(_template_saved, sender=TokenTemplate, dispatch_uid="mcp_django.trail")
    post_delete.connect(_template_deleted, sender=TokenTemplate, dispatch_uid="mcp_django.trail")
    for model in (Tool, Prompt):
        pre_save.connect(_note_switch, sender=model, dispatch_uid="mcp_django.trail")
        post_save.connect(_override_saved, sender=model, dispatch_uid="mcp_django.trail")
        post_delete.connect(_override_deleted, sender=model, dispatch_uid="mcp_django.trail")
        post_save.connect(_override_changed, sender=model, dispatch_uid="mcp_django.overrides")
        post_delete.connect(_override_changed, sender=model, dispatch_uid="mcp_django.overrides")
        m2m_changed.connect(
            partial(_groups_changed, model),
            sender=model.groups.through,
            weak=False,
            dispatch_uid="mcp_django.overrides",
        )
    pre_delete.connect(_pause_ends, sender=Restriction, dispatch_uid="mcp_django.held")
    post_save.connect(_restricted, sender=Restriction, dispatch_uid="mcp_django.restrictions")
    post_delete.connect(_opened, sender=Restriction, dispatch_uid="mcp_django.restrictions")


def _access_changed(sender: Any, instance: Any, using: str, **kwargs: Any) -> None:
    if kwargs.get("created") or kwargs.get("update_fields") == frozenset({"last_login"}):
        return  # No process has read a new row yet, and a login changes no right.
    if _is_leftover(instance):
        return
    announce_access_change(using, _users_of(instance))


def _grants_changed(
    sender: Any, *, instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, using: str, **kwargs: Any
) -> None:
    """Groups or permissions were given or taken away, from the user's side of the relation or from the other one."""
    if not action.startswith("post_"):
        return
    by_keys = reverse and pk_set is not None and issubclass(model, get_user_model())
    announce_access_change(using, set(pk_set) if by_keys else _users_of(instance))


def _users_of(instance: Any) -> set[Any] | None:
    """The keys of the users whom the row concerns, or None where it may concern any user."""
    from mcp_django.models import AccessToken

    if isinstance(instance, AccessToken):
        return {instance.user_id}
    return {instance.pk} if isinstance(instance, get_user_model()) else None


def _is_leftover(instance: Any) -> bool:
    """Whether it is a token of an OAuth client that has expired: thousands of them are cleared away."""
    from mcp_django.models import AccessToken

    return isinstance(instance, AccessToken) and instance.grant_id is not None and not instance.is_current()


def _grant_ended(sender: Any, grant: Grant, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    trail.note_grant(grant, f"ended: {grant.ended_by}", using)
    announce_access_change(using, {grant.user_id})


def announce_access_change(using: str, users: set[Any] | None) -> None:
    """Forget and let other processes forget what these users may do, or with None what anybody may do."""
    from mcp_django.access.authentication import principals

    if users is None:
        principals.clear()
        overrides.forget()
    else:
        principals.forget_users({str(key) for key in users})
    for key in [""] if users is None else map(str, users):
        note_control(using, ControlKind.ACCESS, key)


def _token_saved(
    sender: Any, instance: AccessToken, created: bool, using: str, update_fields: Any, **kwargs: Any
) -> None:
    from mcp_django.access import trail

    was_revoked = update_fields is not None and "revoked_at" in update_fields and instance.revoked_at is not None
    if created and instance.grant_id is not None:
        return  # The line of its grant says it: granted, or refreshed.
    trail.note_token(instance, "created" if created else "revoked" if was_revoked else "changed", using)


def _token_deleted(sender: Any, instance: AccessToken, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    if not _is_leftover(instance):
        trail.note_token(instance, "deleted", using)


def _template_saved(sender: Any, instance: TokenTemplate, created: bool, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    trail.note_template(instance, "created" if created else "changed", using)


def _template_deleted(sender: Any, instance: TokenTemplate, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    trail.note_template(instance, "deleted", using)


def _note_switch(sender: type[AdminOverride], instance: AdminOverride, using: str, **kwargs: Any) -> None:
    """Note on an override that is about to be saved whether that switches it."""
    stored = sender._base_manager.using(using).filter(pk=instance.pk).values_list("enabled", flat=True).first()
    instance._mcp_switched = stored is not None and stored != instance.enabled  # type: ignore[attr-defined]


def _override_saved(sender: Any, instance: AdminOverride, created: bool, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    change = "on" if instance.enabled else "off"
    if created:
        change = f"created {change}"
    elif not instance._mcp_switched:  # type: ignore[attr-defined]
        change = "changed"
    trail.note_override(instance, change, using)


def _override_deleted(sender: Any, instance: AdminOverride, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    trail.note_override(instance, "deleted", using)


def _override_changed(sender: type[AdminOverride], using: str, **kwargs: Any) -> None:
    """An administrator decided something else about a tool or a prompt, so that its list may have changed."""
    overrides.forget()
    note_control(using, ControlKind(sender.LIST))


def _restricted(sender: Any, instance: Restriction, using: str, **kwargs: Any) -> None:
    """A model or a field was switched off, or somebody paused: what streams show and what lists have may change."""
    from mcp_django.access import trail

    trail.note_restriction(instance, using, closed=True)
    announce_access_change(using, None)


def _pause_ends(sender: Any, instance: Restriction, using: str, **kwargs: Any) -> None:
    from mcp_django.access import held

    held.give_time_back(instance, using)


def _opened(sender: Any, instance: Restriction, using: str, **kwargs: Any) -> None:
    from mcp_django.access import trail

    trail.note_restriction(instance, using, closed=False)
    announce_access_change(using, None)


def _groups_changed(
    model: type[AdminOverride],
    /,
    *,
    instance: Any,
    action: str,
    reverse: bool,
    pk_set: Any,
    using: str,
    **kwargs: Any,
) -> None:
    """An override with groups is restricted to them until an administrator takes the last group away.

    Deleting a group removes it without this signal, so that its tool does not become open to everybody.
    """
    from mcp_django.access import trail

    if not action.startswith("post_"):
        return
    rows: Any = model._default_manager.using(using)
    changed = rows.filter(pk__in=pk_set or ()) if reverse else rows.filter(pk=instance.pk)
    for row in changed:
        rows.filter(pk=row.pk).update(restricted=row.groups.exists())
        trail.note_override(row, "groups", using)
    _override_changed(model, using)


def _note_password(sender: Any, instance: Any, raw: bool, using: str, update_fields: Any, **kwargs: Any) -> None:
    """Note on a user who is about to be saved whether that changes the password."""
    instance._mcp_new_password = False
    if raw or instance._state.adding or not hasattr(instance, "password"):
        return
    if update_fields is not None and "password" not in update_fields:
        return
    if update_fields == frozenset({"password"}) and not has_new_password(instance):
        return  # A login that only strengthens the hash saves this field alone.
    stored = sender._base_manager.using(using).filter(pk=instance.pk).values_list("password", flat=True).first()
    instance._mcp_new_password = stored != instance.password


def _password_changed(sender: Any, instance: Any, using: str, **kwargs: Any) -> None:
    """Revoke the user's tokens, and end their grants, when the password was changed or removed."""
    from mcp_django.access import trail
    from mcp_django.models import AccessToken, Grant

    if getattr(instance, "_mcp_new_password", False) and get_conf().PASSWORD_CHANGE_REVOKES:
        for grant in Grant.objects.filter(user=instance.pk, ended_at__isnull=True):
            grant.end(Grant.Ended.PASSWORD)
        revoked = list(AccessToken.objects.filter(user=instance.pk, revoked_at__isnull=True))
        AccessToken.objects.filter(pk__in=[token.pk for token in revoked]).update(revoked_at=timezone.now())
        for token in revoked:
            trail.note_token(token, "revoked by a new password", using)
        # Once more, since outside of a transaction the first announcement came before the update, and another process
        # may have read the tokens again since.
        announce_access_change(using, {instance.pk})
