"""What a change does to rows, with values as JSON, and how that is told to a reader, by the policy for that reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from mcp_django.bridge.changes import row_names
from mcp_django.bridge.changes.shown_values import is_visible, model_field
from mcp_django.bridge.changes.summaries import Line, weight_of
from mcp_django.bridge.resources.policy.visible_rows import visible_keys
from mcp_django.bridge.resources.reading.rows import of_key
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one row, or to a number of others, or what it runs."""

    #: As in a Line.
    change: str
    #: Empty for what is run without a model.
    model: str
    #: Empty for a new row, and for a number of rows.
    key: str = ""
    #: ``{"field", "before", "after"}`` of each value that differs, as JSON. ``before`` may be left out.
    diff: Sequence[JSON] = ()
    count: int = 0
    #: Tells apart the rows of inlines, which have the name of their relation.
    row: int = 0
    inline: str = ""
    #: What is run, as a person calls it.
    title: str = ""


#: What is told first.
_FIRST = ("run", "delete")
#: An effect, with the rights by which it is told. None for what is run, which is no row.
Told = tuple[Effect, "ModelRights | None"]


def lines_of(told: Iterable[Told]) -> list[Line]:
    """What effects are in words, each by the rights of whoever reads it.

    What is run comes first, then deletions, then what weighs most, then numbers of rows.
    """
    every = list(told)
    of_rows = [(one, rights) for one, rights in every if not one.count]
    names = _names(of_rows)
    lines = [_lines(one, rights, names.get((rights, one.key), "")) for one, rights in of_rows]
    ordered = sorted(lines, key=lambda lines: (_place_of(lines[0][1].change), lines[0][0]))
    counted = [Line(one.change, one.model, count=one.count) for one, _ in every if one.count]
    return [*(line for lines in ordered for _, line in lines), *counted]


def _place_of(change: str) -> int:
    return _FIRST.index(change) if change in _FIRST else len(_FIRST)


def _names(told: Iterable[Told]) -> dict[tuple[ModelRights | None, str], str]:
    """What the rows are called, by the rights that name them and their keys."""
    keys: dict[ModelRights, list[str]] = {}
    for effect, rights in told:
        if effect.key and rights is not None:
            keys.setdefault(rights, []).append(effect.key)
    return {(one, key): name for one, some in keys.items() for key, name in row_names.names_of(one, some).items()}


def _lines(effect: Effect, rights: ModelRights | None, name: str) -> list[tuple[int, Line]]:
    """What is done to one row, each value with its weight."""
    about = partial(Line, effect.change, effect.model, effect.key, effect.title or name, row=effect.row)
    said = partial(row_names.in_words, rights)
    found = []
    for one in sorted(effect.diff, key=lambda one: str(one["field"])):
        field = one["field"]
        column = None if rights is None else rights.columns.get(field)
        line = about(column=field, before=said(field, one.get("before")), after=said(field, one["after"]))
        found.append((weight_of(column.field if column is not None else None), line))
    return sorted(found, key=lambda one: one[0]) or [(0, about())]


# For somebody else than the user of the agent.


def seen_by(viewer: Rights, effects: Sequence[Effect]) -> tuple[list[Told], int]:
    """Those of the effects that the viewer may see, with the rights that tell them, and how much is hidden.

    Rows of inlines follow their record. A hidden value counts as one, and so does a row without values, and a
    number of rows.
    """
    found: list[Told] = []
    hidden, main = 0, effects[0]
    # Rows on which something is run may be a thousand, and are looked up together.
    on = [effect for effect in effects if effect.change == "on"]
    seen = {label: _visible(viewer, label, [one.key for one in on if one.model == label]) for label in _labels(on)}
    sees_rows = all(one.key in seen[one.model][1] for one in on)
    for effect in effects:
        if effect.change == "run":
            # What is given to it names its rows, so it is hidden with one of them.
            hidden += 0 if sees_rows else len(effect.diff)
            found.append((effect if sees_rows else replace(effect, diff=()), None))
            continue
        if effect.change == "on":
            rights, keys = seen[effect.model]
            hidden += effect.key not in keys
            found += [(effect, rights)] if effect.key in keys else []
            continue
        if not effect.inline:
            main = effect
        rights = rights_on(viewer, effect, main)
        if rights is None:
            hidden += max(1, len(effect.diff))
            continue
        diff = [one for one in effect.diff if _is_seen(rights, one)]
        hidden += len(effect.diff) - len(diff)
        found.append((replace(effect, diff=diff), rights))
    return found, hidden


def _labels(effects: Iterable[Effect]) -> set[str]:
    return {effect.model for effect in effects}


def _visible(viewer: Rights, label: str, keys: Sequence[str]) -> tuple[ModelRights | None, Collection[str]]:
    """What the viewer may read of a model, and those of its rows that the viewer may see."""
    rights = viewer.of_label(label)
    return rights, () if rights is None else visible_keys(rights, keys)


def rights_on(viewer: Rights, effect: Effect, main: Effect) -> ModelRights | None:
    """What the viewer may read of the row that is changed; None where that is nothing.

    Rows of inlines are seen with the record ``main`` that they stand on. Whether a new record would be seen by somebody
    who sees some of them is not known, so it is not.
    """
    if not effect.inline:
        return _of_row(viewer.of_label(effect.model), effect)
    record = _of_row(viewer.of_label(main.model), main)
    relation = None if record is None else record.relations.get(effect.inline)
    return None if relation is None else _of_row(relation.related, effect)


def _of_row(rights: ModelRights | None, effect: Effect) -> ModelRights | None:
    if rights is None or effect.count:
        # The number is of rows that the agent sees. Whoever sees some of them does not see them whole.
        return None if rights is not None and rights.scoped else rights
    if not effect.key:
        return None if rights.scoped and not effect.inline else rights
    found = of_key(rights, effect.key)
    return found[0] if found is not None and found[1].exists() else None


def _is_seen(rights: ModelRights, one: JSON) -> bool:
    """Whether a value may be seen before and after: rows that it names count as a part of it."""
    name, values = one["field"], [one[when] for when in ("before", "after") if one.get(when) is not None]
    if name in rights.relations:
        keys = {str(key) for value in values for key in value}
        return len(visible_keys(rights.relations[name].related, sorted(keys))) == len(keys)
    column = rights.columns.get(name)
    if column is None:
        # One of the form alone is what the agent has given.
        return model_field(rights.model, name) is None
    return not column.hides_key or all(is_visible(column, value) for value in values)
