"""A delete as an agent proposes it: what would go with the rows, and what holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import models, router
from django.http import Http404, QueryDict

from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import FEW, Proposed
from mcp_django.bridge.changes.summaries import OTHERS, Line
from mcp_django.bridge.declared.consent import Considered, Level, Needs
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.tools.row_texts import names_of
from mcp_django.bridge.writes import access, given_records, pages, states
from mcp_django.bridge.writes.form_errors import refusals, said_by
from mcp_django.bridge.writes.pages import Refused
from mcp_django.bridge.writes.twin import ViewRun, twin_of
from mcp_django.core.compat.admin import cascade_of, key_for_url
from mcp_django.core.compat.requests import freeze
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.hooks import call_hook, hook_of
from mcp_django.exceptions import ToolError
from mcp_django.models import Change
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
    from mcp_django.exchange.requests import MCPRequest

#: Rows that a call may name by their ids.
MAX_ROWS = 50
#: Rows that may depend on them: all are read, most of them by the admin too.
_MAX_CASCADE = 10_000
_AT_ONCE = 500
#: The admin's own action, by which it deletes several rows.
_DELETE_SELECTED = "delete_selected"
_MAY_DELETE = "has_delete_permission"


@dataclass
class Deletion(Proposed):
    """Rows that are to be deleted, with all that Django deletes with them. Raises ToolError where that is too much."""

    rights: ModelRights
    objects: Sequence[models.Model]

    kind = Change.Kind.RECORD
    operation: Operation = "delete"
    #: What the agent should know about its filter.
    notes: Sequence[str] = ()
    #: Rows that the same change restores or deletes before these.
    before: Collection[models.Model] = ()

    def __post_init__(self) -> None:
        self.arguments = {"model": self.rights.label, "ids": sorted(map(str, self.keys))}
        objects = [*self.objects, *_below(self.objects)]
        is_few = len(objects) <= _MAX_CASCADE + len(self.objects)
        self.label, self.using = self.rights.label, router.db_for_write(self.rights.model)
        found = cascade_of(objects, self.using, most=_MAX_CASCADE) if is_few else None
        if found is None:
            raise ToolError(
                f"More than {_MAX_CASCADE:,} records depend on these. Nothing was changed. Name fewer, or let a person "
                "delete them in the admin.",
                reason="LIMIT_EXCEEDED",
            )
        rows = [[one for one in some if one not in self.before] for some in found]
        self._deleted, self._unlinked, self._protecting = rows

    @property
    def deleted(self) -> Sequence[models.Model]:
        """The rows, and all that go with them."""
        return self._deleted

    @property
    def request(self) -> MCPRequest:
        return self.rights.rights.request

    @property
    def keys(self) -> list[Any]:
        return [one.pk for one in self.objects]

    @cached_property
    def declared(self) -> Needs:
        considered = partial(self._considered, self.rights, self.objects)
        found = access.needs_of(self.rights, self.operation, considered) | self.needs_of_cascade()
        return found | Needs(Level.ASK) if len(self.objects) > FEW else found

    def needs_of_cascade(self) -> Needs:
        """What is needed for the rows that are deleted with them, where that is the approval of other people."""
        by_model: dict[Any, list[models.Model]] = {}
        for one in self._deleted:
            by_model.setdefault(type(one), []).append(one)
        found = Needs()
        for model, objects in by_model.items():
            rights = self.rights.rights.of_model(model)
            if rights is None:
                found |= access.needs_unseen(self.rights.rights, model, self.operation)
                continue
            needs = access.needs_of(rights, self.operation, partial(self._considered, rights, objects))
            found |= needs if needs.level is Level.APPROVE else Needs()
        return found

    def _considered(self, rights: ModelRights, objects: Iterable[models.Model]) -> Iterator[Considered]:
        principal = self.request.mcp.principal
        for one in objects:
            before = states.readable(rights, states.values_of(one))
            yield Considered(self.operation, self.row_count, before, {}, principal.user, principal.lineage)

    @property
    def parts(self) -> list[Effect]:
        return [Effect("delete", self.rights.label, str(key)) for key in self.keys]

    @property
    def row_count(self) -> int:
        return len(self.objects)

    def may_be_done_by(self, rights: Rights) -> bool:
        return access.may_do_all(rights, self.label, self.parts) and all(self._may_go(rights.request))

    def _may_go(self, request: MCPRequest) -> Iterator[bool]:
        """Whether the page of the admin would let a person delete the rows that go with others, one after the other."""
        site, asked = self._admin.admin_site, set[Any]()
        for one in self._deleted:
            model = type(one)
            if model in asked or not site.is_registered(model):
                continue
            admin = site.get_model_admin(model)
            if hook_of(admin, _MAY_DELETE) is ModelAdmin.has_delete_permission:
                # Django's own answers for all rows alike.
                asked.add(model)
            yield call_hook(partial(_allows, admin, request, one), False, _MAY_DELETE)

    @cached_property
    def state(self) -> JSON:  # type: ignore[override]
        """The rows as they are, and how many others are deleted with them or lose their link."""
        return {
            "rows": states.bound_to(self.rights, states.stored(self.rights, self.keys)),
            "deleted": self._counted(self._deleted),
            "unlinked": self._counted(self._unlinked),
        }

    def preview(self) -> JSON:
        """What would be deleted, as counts of records. Raises ToolError where the admin refuses."""
        self._check(is_next=not self.before)
        named = {"ids": list(map(str, self.keys))} if "ids" in self.arguments else {"count": len(self.keys)}
        found: JSON = {**named, "deleted": self._seen(self._deleted)}
        if unlinked := self._seen(self._unlinked):
            found["unlinked"] = unlinked
        found["notes"] = [*self.notes, "What is deleted cannot be restored."]
        return found

    def summary(self, *, values: bool = True) -> list[Line]:
        """What is deleted in words, for the person who is asked: each row by its name, and what goes with it."""
        return lines_of((one, self.rights) for one in self.effects)

    @cached_property
    def effects(self) -> list[Effect]:
        """What is deleted, and what goes with it."""
        label, found = self.rights.label, self.parts
        deleted = self._seen(self._deleted)
        deleted[label] = deleted.get(label, 0) - len(self.keys)
        for change, counts in (("deleted", deleted), ("unlinked", self._seen(self._unlinked))):
            found += [Effect(change, one, count=count) for one, count in counts.items() if count > 0]
        return found

    def apply(self, by: str) -> JSON:
        """Delete the rows. Raises ToolError where the admin refuses."""
        self._check()
        if self.before and not set(Deletion(self.rights, self.objects).deleted) <= set(self._deleted):
            raise ToolError(
                "More would go with the records than was shown. Undo one change at a time. Nothing was changed."
            )
        # Django sets the primary keys of deleted objects to None.
        deleted, names = self._seen(self._deleted), names_of(self.rights.label, self.objects)
        keys, run = list(map(str, self.keys)), ViewRun(writes=True)
        with refusals(self.rights, self.keys), _said_in_history(self.rights.model, self.request.user, keys, by):
            asked = self._send(run)
            if not run.is_done:
                raise Refused(None, asked)
        found: JSON = {"ids": keys, "deleted": deleted}
        if said := said_by(asked, names):
            found["messages"] = said
        return found

    # What the admin says.

    def _check(self, *, is_next: bool = True) -> None:
        """Raises ToolError where the page of the admin would not delete the rows.

        Unless it ``is_next``, rows are still as they are that the change restores or deletes before these, and the page
        cannot tell what holds them then.
        """
        run = ViewRun(writes=False)
        with refusals(self.rights, self.keys):
            pages.check_has_page(self._admin, self._page[0], self.request)
            asked = pages.request_for(self._admin, self.request, "POST" if self._is_several else "GET", *self._page)
            response = self._ask(run, asked)
            context = getattr(response, "context_data", None) or {}
            if "perms_lacking" not in context or pages.model_of(response, self._admin) is not None:
                raise Refused(response, asked)
        if context["perms_lacking"]:
            text = f"You may not delete all of these: {self._in_words(self._deleted)}. Nothing was changed."
            raise ToolError(text, reason="NO_PERMISSION")
        if self._protecting or (is_next and context["protected"]):
            held_by = self._in_words(self._protecting) or "other records"
            text = f"These records would have to be deleted first: {held_by}. Nothing was changed."
            raise ToolError(text, reason="PROTECTED")

    def _send(self, run: ViewRun) -> MCPRequest:
        asked = pages.request_for(self._admin, self.request, "POST", *self._page)
        posted = QueryDict(mutable=True)
        posted["post"] = "yes"
        if self._is_several:
            posted["action"] = _DELETE_SELECTED
            posted.setlist(ACTION_CHECKBOX_NAME, list(map(str, self.keys)))
        freeze(posted)
        asked.POST = posted
        self._ask(run, asked)
        return asked

    @property
    def _is_several(self) -> bool:
        return len(self.objects) > 1

    @property
    def _page(self) -> tuple[str, *tuple[Any, ...]]:
        """The page of the admin that deletes them, with a key."""
        return ("changelist",) if self._is_several else ("delete", self.objects[0].pk)

    def _ask(self, run: ViewRun, asked: MCPRequest) -> Any:
        return self._run_action(run, asked) if self._is_several else self._view(run, asked)

    def _view(self, run: ViewRun, asked: MCPRequest) -> Any:
        try:
            return twin_of(self._admin, run).delete_view(asked, key_for_url(self.objects[0].pk))
        except Http404:
            raise Refused(None, asked) from None

    def _run_action(self, run: ViewRun, asked: MCPRequest) -> Any:
        twin = twin_of(self._admin, run)
        found = twin.get_actions(asked).get(_DELETE_SELECTED)
        if found is None:
            raise ToolError(
                "The admin does not delete several records of this model at once. Give one id in each call."
            )
        function = found[0] if isinstance(found, tuple) else found.func
        chosen = twin.get_queryset(asked).filter(has_key_in(twin.model, self.keys))
        if chosen.count() != len(self.objects):
            # The options show rows that the admin's action would leave out.
            raise Refused(None, asked)
        return function(twin, asked, chosen)

    @property
    def _admin(self) -> Any:
        return access.admin_of(self.rights)

    # What goes with the rows.

    def _counted(self, objects: Iterable[models.Model]) -> Mapping[str, int]:
        return Counter(one._meta.label_lower for one in objects)

    def _seen(self, objects: Iterable[models.Model]) -> dict[str, int]:
        """How many of the objects there are: by model of those that the agent may see, and of all others together."""
        by_model: dict[Any, list[Any]] = {}
        for one in objects:
            by_model.setdefault(type(one), []).append(one.pk)
        found: dict[str, int] = {}
        hidden = 0
        for model, keys in by_model.items():
            rights = self.rights.rights.of_model(model)
            seen = sum(len(visible_rows.visible_keys(rights, part)) for part in _parts(keys)) if rights else 0
            hidden += len(keys) - seen
            if rights is not None and seen:
                found[rights.label] = seen
        return {**found, **({OTHERS: hidden} if hidden else {})}

    def _in_words(self, objects: Iterable[models.Model]) -> str:
        return ", ".join(f"{count} of {label}" for label, count in self._seen(objects).items())


def propose(rights: Rights, arguments: JSON) -> Deletion:
    """Read the arguments of a call. Raises InvalidQuery and ToolError."""
    model = access.find(rights, arguments["model"], "delete")
    given_records.check_one_of(arguments, "ids", "filter")
    if ids := arguments.get("ids"):
        return Deletion(model, given_records.rows_of_ids(model, ids, MAX_ROWS))
    notes: list[str] = []
    found = Deletion(model, given_records.rows_of_filter(model, arguments["filter"], notes))
    # Where other rows match by now, that is what the agent reads, and not that its token is for another call.
    found.arguments, found.notes = {"model": model.label, "filter": arguments["filter"]}, notes
    return found


def in_order(model: ModelRights, rows: Sequence[models.Model], before: Iterable[models.Model]) -> Iterator[Deletion]:
    """The deletions of rows one after the other, or together where the admin deletes several at once."""
    admin, request = access.admin_of(model), model.rights.request
    several = _DELETE_SELECTED in admin.get_actions(pages.request_for(admin, request, "POST", "changelist"))
    done = set(before)
    for some in [rows] if several else [[one] for one in rows]:
        if left := [one for one in some if one not in done]:
            found = Deletion(model, left, before=frozenset(done))
            done.update(found.deleted)
            yield found


def _below(objects: Sequence[models.Model]) -> list[models.Model]:
    """The rows below these in a tree of django-treebeard, which deletes them without a key that leads to them.

    No more than one too many.
    """
    found: dict[models.Model, None] = {}
    for one in objects:
        if any(cls.__module__.startswith("treebeard.") for cls in type(one).__mro__):
            found |= dict.fromkeys(one.get_descendants()[: _MAX_CASCADE + 1])  # type: ignore[attr-defined]
    return [one for one in islice(found, _MAX_CASCADE + 1) if one not in objects]


def _allows(admin: ModelAdmin[Any], request: MCPRequest, one: models.Model) -> bool:
    return bool(admin.has_delete_permission(request, one))


def _parts(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))


@contextmanager
def _said_in_history(model: Any, user: Any, keys: Sequence[str], by: str) -> Iterator[None]:
    """Write the words ``by`` into the entries that the admin makes for deleted rows within the block."""
    from django.contrib.admin.models import DELETION, LogEntry
    from django.contrib.contenttypes.models import ContentType

    content_type = ContentType.objects.get_for_model(model, for_concrete_model=False)
    entries = LogEntry.objects.using(router.db_for_write(LogEntry))
    last = entries.aggregate(last=models.Max("pk"))["last"] or 0
    yield
    made = entries.filter(pk__gt=last, action_flag=DELETION, user_id=user.pk, content_type=content_type)
    made.filter(object_id__in=keys).update(change_message=f"{by[:1].upper()}{by[1:]}.")
