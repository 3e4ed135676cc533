"""What code exposes of the models, and what administrators switched off of it: for the page of the models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.options import BaseModelAdmin
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Permission
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.declared.options import OPERATIONS, ModelMCP, Operation, row_hook
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.writes import access, exposure
from mcp_django.console.review import inventory
from mcp_django.console.review.consent_words import in_words
from mcp_django.core.hooks import hook_of
from mcp_django.exchange.scopes import SCOPES

if TYPE_CHECKING:
    from collections.abc import Set

    from django.http import HttpRequest

    from mcp_django.access.overrides import Restrictions
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.protocol.types import JSON


#: What agents may do with rows, in the words of the code, which people read in the trail and in consent.
_OPERATIONS: Mapping[str, Any] = {"create": _("create"), "update": _("update"), "delete": _("delete")}


@dataclass(frozen=True)
class ShownField:
    """A field, a relation or a computed value of a model, or a field that code hides."""

    name: str
    #: The type, or where it leads; empty for what is hidden.
    kind: str = ""
    is_off: bool = False
    #: Why code hides it.
    hidden: str = ""
    #: Whether an administrator may switch it. The primary key names the row, and so is always shown.
    can_switch: bool = True


class ExposedModel:
    """One model as code exposes it to somebody who may do everything, with what is switched off of it."""

    def __init__(self, model_mcp: ModelMCP, rights: ModelRights | None, restrictions: Restrictions) -> None:
        self.model_mcp = model_mcp
        self.label = model_mcp.label
        self._rights = rights
        self.is_off = model_mcp.label in restrictions.models
        self.off: Set[str] = restrictions.fields.get(model_mcp.label, set())

    @property
    def title(self) -> str:
        return str(self.model_mcp.opts.verbose_name_plural)

    @property
    def is_reached(self) -> bool:
        """Whether a superuser with every scope reaches it: the project's own hook may refuse everybody."""
        return self._rights is not None

    @cached_property
    def declared(self) -> JSON:
        """As an inventory has it; empty where nobody reaches the model."""
        return {} if self._rights is None else inventory.describe_model(self._rights)

    @cached_property
    def decided(self) -> Sequence[tuple[Operation, Any, str]]:
        """Each operation with its consent, and the permission or the hook that decides."""
        if self._rights is None:
            return ()
        found = exposure.operations(self._rights)
        return [(one, access.consent_of(self._rights, one), found[one]["by"]) for one in OPERATIONS if one in found]

    @property
    def writes(self) -> Sequence[Mapping[str, str]]:
        """``operation`` and ``consent`` in words, and ``by``, the permission or the hook that decides."""
        return [
            {"operation": _OPERATIONS[one], "consent": in_words(consent), "by": by} for one, consent, by in self.decided
        ]

    @property
    def rows(self) -> str:
        """The project's hook that gives the rows, or how many are shown together; empty where all are shown."""
        if self._rights is None:
            return ""
        if not self._rights.has_rows:
            size = self._rights.smallest_group
            text = ngettext("only in groups of at least %(count)d", "only in groups of at least %(count)d", size)
            return text % {"count": size}
        hook = row_hook(self.model_mcp)
        return gettext("those of %(hook)s") % {"hook": hook} if hook else ""

    @property
    def fields(self) -> Iterator[ShownField]:
        declared = self.declared
        key = self.model_mcp.opts.pk.name
        shown = {name: field.get("relation", field["type"]) for name, field in declared.get("fields", {}).items()}
        shown |= declared.get("relations", {}) | dict.fromkeys(declared.get("computed", ()), gettext("computed"))
        for name, kind in shown.items():
            yield ShownField(name, kind, name in self.off, can_switch=name != key)
        for name, word, why in () if self._rights is None else inventory.hidden_fields(self._rights):
            remedy = inventory.REMEDIES.get(word, "")
            yield ShownField(name, hidden=inventory.with_remedy(why, remedy), can_switch=False)

    @property
    def gone(self) -> Sequence[str]:
        """The names that were switched off, and that code exposes no longer."""
        return sorted(self.off - {field.name for field in self.fields if field.can_switch})

    @property
    def view_permissions(self) -> Sequence[str]:
        """The permissions of which a user needs one: the ModelAdmin lets those who may change rows see them too."""
        admin = self.model_mcp.model_admin
        verbs = ("view",) if admin is None else ("view", "change")
        opts = self.model_mcp.opts
        return [f"{opts.app_label}.{get_permission_codename(verb, opts)}" for verb in verbs]

    @property
    def view_hook(self) -> str:
        """The project's own ``has_view_permission``, which decides beyond these permissions; empty where it is ours."""
        hook = hook_of(self.model_mcp, "has_view_permission")
        admin: Any = self.model_mcp.model_admin
        if hook is ModelMCP.has_view_permission and admin is not None:
            hook = hook_of(admin, "has_view_permission")
        if hook in (ModelMCP.has_view_permission, ModelAdmin.has_view_permission, BaseModelAdmin.has_view_permission):
            return ""
        return str(getattr(hook, "__qualname__", "has_view_permission"))


def exposed_models(site: MCPSite, restrictions: Restrictions, request: HttpRequest) -> list[ExposedModel]:
    """Every model that code exposes on the site, in the order of their labels."""
    rights = Rights.of(site, inventory.request_of(None, SCOPES, request))
    declared = sorted(site.models.items())
    return [ExposedModel(model_mcp, rights.of_label(label), restrictions) for label, model_mcp in declared]


def decide(shown: Iterable[ExposedModel]) -> None:
    """Ask the project's hooks, as a call does. The page that shows the models may be in another language."""
    for one in shown:
        _ = one.declared, one.decided


def groups_by_permission(wanted: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Permission, as ``app.codename`` → the names of the groups that hold it, read with one statement."""
    codenames = {name.partition(".")[2] for name in wanted}
    held = Permission.objects.filter(codename__in=codenames, group__isnull=False).order_by("group__name")
    found: dict[str, list[str]] = defaultdict(list)
    for app, codename, group in held.values_list("content_type__app_label", "codename", "group__name"):
        found[f"{app}.{codename}"].append(group)
    return found


def groups_of(model: ExposedModel, by_permission: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of the groups whose members may see the model by their permission."""
    return sorted({name for permission in model.view_permissions for name in by_permission.get(permission, ())})
