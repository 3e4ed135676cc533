"""What a query may name: columns of a model and of those that it points to, its relations, and what is computed.

A hidden related row reads as null, and no condition can find it: a condition on related rows is one on the rows that
the principal may see (``ModelRights.rows``), never on the joined table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.db.models import Case, Count, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce, Left

from mcp_django.bridge.resources.fields.html_text import text_of
from mcp_django.bridge.resources.fields.kinds import DATA, INTEGER, RELATED_TABLE, TEXT, Kind, related_list
from mcp_django.bridge.resources.fields.parsing import column_of, refuse
from mcp_django.core.compat.translated_fields import Localized
from mcp_django.core.db.column_paths import column_path, is_in
from mcp_django.core.types import AnyField

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.generic import ContentTypes
    from mcp_django.bridge.resources.policy.policy import ModelRights


#: How many relations the filter of one query may follow, and how many its columns may: each is a subquery or a join.
MAX_RELATIONS = 10
#: How many related rows are listed for one row. A query of their own model finds the others.
MAX_RELATED = 20


class _Visible(Case):
    """A value where it may be seen, else null."""

    def get_db_converters(self, connection: Any) -> list[Any]:
        found: list[Any] = super().get_db_converters(connection)
        return [*found, _with_places] if isinstance(self.output_field, models.DecimalField) else found


def _with_places(value: Any, expression: Any, connection: Any) -> Any:
    """A decimal with the places of its column, which SQLite gives to plain columns alone."""
    places = expression.output_field.decimal_places
    return value if value is None or places is None else value.quantize(Decimal(1).scaleb(-places))


#: Its values are written where they are computed: see ``Computed.read``.
COMPUTED = Kind("computed", {}, (), refuse, lambda value: value, orderable=False, long=True)


@dataclass(frozen=True, slots=True)
class Column:
    """A readable field of a model, or of one that its foreign keys lead to."""

    #: As a query names it: ``name``, ``origin__name``.
    name: str
    field: AnyField
    kind: Kind
    #: For a foreign key: the rights on the model that it points to.
    related: ModelRights | None = None
    #: For a foreign key to ContentType that is read as the label of a model: the types that the principal may know.
    types: ContentTypes | None = None
    #: The foreign keys that lead to it, the first one of the model itself.
    via: tuple[Column, ...] = ()
    #: The columns of several languages, of which the first value is shown.
    translated: Localized | None = None

    @property
    def attname(self) -> str:
        return self.field.attname

    @property
    def path(self) -> str:
        """The path of the ORM that the value is read from."""
        return "__".join([*(step.field.name for step in self.via), self.attname]) if self.via else self.attname

    @property
    def lookup_path(self) -> str:
        """The path that a lookup may follow: see ``column_path``."""
        return "__".join([*(step.field.name for step in self.via), column_path(self.field)])

    @property
    def masked(self) -> bool:
        """Whether the value is null where it would reveal a row that the principal cannot see."""
        return self.hides_key or (bool(self.via) and any(step.hides_rows for step in self.via))

    @property
    def hides_rows(self) -> bool:
        """Whether it may point to a row which the principal cannot see."""
        return self.related is not None and self.related.scoped

    @property
    def hides_key(self) -> bool:
        """Whether its own value is null where it points to such a row. A primary key is not: its row can be seen."""
        return self.types is not None or (self.hides_rows and not self.field.primary_key)

    @property
    def can_order(self) -> bool:
        """Whether rows may be ordered by it: an order by a hidden value would reveal it."""
        return self.kind.orderable and not self.masked

    @property
    def converted_by(self) -> str:
        """Why its values are compared only as a whole, where its class is the reason; else empty."""
        if not self.kind.converted:
            return ""
        name = type(column_of(self.field)).__name__
        return f"{self.name} is a {name}, a class that may store other values than it shows"

    @property
    def is_plain(self) -> bool:
        """Whether the value is read as it is stored."""
        if self.kind.select is not F or self.translated is not None:
            return False
        return not (self.related or self.via or self.types) or not self.masked

    @property
    def nullable(self) -> bool:
        return self.masked or self.field.null or any(step.field.null for step in self.via)

    def expression(self) -> Any:
        """The column in a query: the values of a hidden related row read as null, and so does its key."""
        visible, prefix = Q(), ""
        for step in (*self.via, self):
            if step.related is not None and (step.hides_key if step is self else step.hides_rows):
                rows = step.related.rows().filter(Q((step.target, OuterRef(prefix + step.attname))))
                visible &= Q(Exists(rows))
            prefix += f"{step.field.name}__"
        value = self._selected() if self.types is None else self.types.label_at(self.path)
        return _Visible(When(visible, then=value), default=None) if visible else value

    def beginning(self, chars: int) -> Column:
        """The column with only the first ``chars`` of each text, unless the field itself limits their length."""
        if self.kind is not TEXT or column_of(self.field).max_length is not None:
            return self
        return replace(self, kind=replace(TEXT, select=lambda path: Left(path, chars)))

    def condition(self, lookup: str, value: Any) -> Q:
        """``Q(name__lookup=value)``, which cannot find a hidden related row."""
        if self.via:
            return self._condition_on_related(lookup, value)
        if self.translated is not None:
            return self._condition_on_languages(self.translated, lookup, value)
        if self.types is not None:
            return self.types.condition(self.field, lookup, value)
        if self.kind.linked and lookup == "isnull":
            # An empty value has no link, and is read as null too.
            empty = Q((f"{self.lookup_path}__isnull", True)) | Q((self.attname, self.kind.empty))
            return empty if value else ~empty
        if lookup == "isnull" and isinstance(self.field, models.JSONField):
            # The null of JSON is read as null too.
            empty = Q((f"{self.lookup_path}__isnull", True)) | Q((self.attname, Value(None, models.JSONField())))
            return empty if value else ~empty
        if self.related is None or not self.hides_key:
            return self.kind.compare(self.lookup_path, lookup, value)
        visible = self.related.rows()
        if lookup == "isnull":
            hidden = ~is_in(self.field, self._ends(visible)) | Q((f"{self.lookup_path}__isnull", True))
            return hidden if value else ~hidden
        return self.points_to(self.kind.compare(self.target, lookup, value))

    def points_to(self, condition: Q) -> Q:
        """Of a foreign key: a condition that it points to a visible row which meets ``condition``."""
        if self.related is None:
            raise TypeError(f"{self.name} points to nothing")
        found = self.related.rows().filter(condition)
        return is_in(self.field, self._ends(found))

    def _ends(self, rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
        """The values of the foreign key that point to one of the rows."""
        if self.field.target_field.null:  # type: ignore[attr-defined]
            # With one null among them, NOT IN would hold for no row at all.
            rows = rows.filter(Q((f"{self.target}__isnull", False)))
        return rows.values(self.target)

    def _selected(self) -> Any:
        """The expression that reads the value."""
        if self.translated is None:
            return self.kind.select(self.path)
        value = self.translated.value(self.path)
        return value if self.kind.select is F else self.kind.select(value)

    def _condition_on_languages(self, translated: Localized, lookup: str, value: Any) -> Q:
        """The condition on the value that is shown: of the first language that has one."""
        found, empty = Q(pk__in=[]), Q()
        for field in translated.fields:
            one = replace(self, field=field, translated=None)
            is_empty = one.condition("isnull", True)
            if translated.undefined is not None:
                is_empty |= Q((one.attname, translated.undefined))
            found |= empty & ~is_empty & one.condition(lookup, value)
            empty &= is_empty
        if lookup == "isnull":
            is_null = empty if translated.last is None or self.kind.linked else Q(pk__in=[])
            return is_null if value else ~is_null
        compare: Any = self.field.get_lookup(lookup)
        if translated.last is not None and compare is not None:
            found |= empty & Q(compare(Value(translated.last, output_field=self.field), value))
        return found

    def _condition_on_related(self, lookup: str, value: Any) -> Q:
        step, rest = self.via[0], replace(self, via=self.via[1:])
        if lookup == "isnull" and value:
            # A field of a missing or hidden row is null.
            return ~step.points_to(rest.condition("isnull", False))
        return step.points_to(rest.condition(lookup, value))

    @property
    def target(self) -> str:
        """Where the relation ends, as a path from its model: more than one name where that key is a relation too."""
        target: AnyField = self.field.target_field  # type: ignore[attr-defined]
        return column_path(target)


@dataclass(frozen=True, slots=True)
class Relation:
    """The visible rows that point to a row, or that a many-to-many field joins with it."""

    name: str
    related: ModelRights
    #: The field that makes the relation: a foreign key of the related model, or a many-to-many field of either.
    field: Any
    #: Whether a many-to-many field stands on this model.
    forward: bool = False
    #: Of a many-to-many field: the rights on its through model, if that is exposed.
    links: ModelRights | None = None

    @property
    def between(self) -> Any:
        """Of a many-to-many field: the model that it goes through."""
        return self.field.remote_field.through if self.field.many_to_many else None

    @property
    def grouping(self) -> str:
        """How a query of the related model asks for the rows of each row, in words; empty where it cannot."""
        return "" if self.field.many_to_many else f"grouped by {self.field.name}"

    @property
    def owner_field(self) -> AnyField:
        """The field of this model that the relation leads to: mostly the primary key."""
        key = self._links[1] if self.field.many_to_many else self.field
        field: AnyField = key.target_field
        return field

    @property
    def owner_attname(self) -> str:
        return self.owner_field.attname

    @property
    def held_by(self) -> AnyField:
        """The field that holds a value of ``owner_field``: of the related model, or of the one that joins both."""
        field: Any = (self.between or self.related.model)._meta.get_field(self.owner_path)
        return cast("AnyField", field)

    @property
    def hides_rows(self) -> bool:
        """Whether it may lead to rows which the principal cannot see."""
        return self.related.scoped or (self.links is not None and self.links.scoped)

    def exists(self, condition: Q) -> Q:
        """A condition that a visible related row meets ``condition``."""
        return Q(Exists(self._joined(self._owned_by(OuterRef(self.owner_attname)), condition)))

    def count(self) -> Any:
        """How many visible related rows a row has, as an expression."""
        joined = self._joined(self._owned_by(OuterRef(self.owner_attname)), Q(), bare=True)
        counted = self._grouped(joined).values("_mcp_count")
        return Coalesce(Subquery(counted, output_field=models.IntegerField()), 0)

    def counts(self, owners: Sequence[Any], alias: str) -> models.QuerySet[Any]:
        """How many visible related rows several rows have, as a query: what leads to each of them, and the number.

        ``owners``: their values of ``owner_attname``, none of them null. A row without related rows is left out.
        """
        joined = self._joined(self._owned_by_any(owners), Q(), bare=True)
        return self._grouped(joined).using(alias).values_list(self.owner_path, "_mcp_count")

    def _grouped(self, joined: models.QuerySet[Any]) -> models.QuerySet[Any]:
        """The rows of ``_joined``, grouped by the row that they belong to, and how many these are."""
        number = Count("*")
        if self.field.many_to_many:
            through, _, there = self._links
            # A through model of the project may join the same two rows more than once.
            number = number if through._meta.auto_created else Count(there.attname, distinct=True)
        grouped: models.QuerySet[Any] = joined.order_by().values(self.owner_path).annotate(_mcp_count=number)
        return grouped

    def rows_of(self, owner: Any) -> models.QuerySet[Any]:
        """The visible related rows of one row, given its ``owner_attname``."""
        rows: models.QuerySet[Any] = self.related.rows()
        if not self.field.many_to_many:
            return rows.filter(self._owned_by(owner))
        there = self._links[2]
        links = self._link_rows(rows.db).filter(self._owned_by(owner)).values(there.attname)
        return rows.filter(is_in(there.target_field, links))

    def rows_of_any(self, owners: Sequence[Any]) -> models.QuerySet[Any]:
        """The visible related rows of several rows.

        For a many-to-many field they are rows of its through model, one for each related row: ``step`` leads to it.
        """
        if not self.field.many_to_many:
            return self.related.bare_rows().filter(self._owned_by_any(owners))
        through, here, there = self._links
        rows = self.related.rows()
        visible = is_in(there, rows.values(there.target_field.attname))
        links = self._link_rows(rows.db).filter(self._owned_by_any(owners)).filter(visible)
        if through._meta.auto_created:
            return links
        # A through model of the project may join the same two rows more than once.
        equal = [Q((name, OuterRef(name))) for name in (here.attname, there.attname)]
        earlier = Q((f"{column_path(through._meta.pk)}__lt", OuterRef("pk")))
        return links.filter(~Exists(self._link_rows(rows.db).filter(*equal, earlier)))

    @property
    def owner_path(self) -> str:
        """Where the rows of ``rows_of_any`` hold the ``owner_attname`` that they belong to."""
        path: str = self._links[1].attname if self.field.many_to_many else self._owner_column
        return path

    @property
    def key_path(self) -> str:
        """Where the rows of ``rows_of_any`` hold the primary key of the related row."""
        return f"{self._links[2].name}__pk" if self.field.many_to_many else "pk"

    @property
    def step(self) -> tuple[Column, ...]:
        """The foreign key that leads from rows of a through model to the related rows: see ``rows_of_any``."""
        if not self.field.many_to_many:
            return ()
        there = self._links[2]
        return (Column(there.name, there, self.related.primary_key.kind, self.related),)

    def held(self, owner: Any) -> Any:
        """The value with which a related row points to the row with this ``owner_attname``."""
        return owner

    @property
    def _owner_column(self) -> str:
        """Of a relation that is not many-to-many: the column of the related model that holds what it leads to."""
        attname: str = self.field.attname
        return attname

    def _owned_by(self, owner: Any) -> Q:
        """A condition that a row belongs to the row with this ``owner_attname``: a related row, or one that joins."""
        return Q((self.owner_path, owner))

    def _owned_by_any(self, owners: Sequence[Any]) -> Q:
        """The same for several rows."""
        return is_in(self.held_by, [self.held(owner) for owner in owners])

    def _joined(self, owned: Q, condition: Q, *, bare: bool = False) -> models.QuerySet[Any]:
        """One row for each visible related row that meets the condition, of the rows that ``owned`` names."""
        rows = self.related.bare_rows() if bare else self.related.rows()
        if not self.field.many_to_many:
            return rows.filter(owned).filter(condition)
        there = self._links[2]
        links = self._link_rows(rows.db).filter(owned)
        found = rows.filter(condition).values(there.target_field.attname)
        joined: models.QuerySet[Any] = links.filter(is_in(there, found))
        return joined

    def _link_rows(self, alias: str) -> models.QuerySet[Any]:
        """Rows of the through model that the principal may see."""
        if self.links is not None:
            return self.links.bare_rows()
        rows: models.QuerySet[Any] = self._links[0]._base_manager.using(alias)
        return rows

    @property
    def _links(self) -> tuple[Any, Any, Any]:
        """Of a many-to-many relation: the through model, its foreign key to this model, and that to the related one."""
        through = self.between
        names = [self.field.m2m_field_name(), self.field.m2m_reverse_field_name()]
        here, there = names if self.forward else reversed(names)
        return through, through._meta.get_field(here), through._meta.get_field(there)


@dataclass(frozen=True, slots=True)
class RelatedCount:
    """How many visible rows a relation leads to."""

    name: str
    relation: Relation
    kind = INTEGER
    # As those of a Column, for an order.
    field = models.IntegerField()
    nullable = False

    @property
    def path(self) -> str:
        """The name that the number has in a query."""
        return f"_mcp_count_{self.relation.name}"

    #: The path that a lookup may follow.
    lookup_path = path

    def expression(self) -> Any:
        return self.relation.count()


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """The first visible rows that a relation leads to: a list of one field of each, or a small table of several."""

    name: str
    relation: Relation
    columns: tuple[Column, ...]

    @property
    def kind(self) -> Kind:
        return related_list(self.columns[0].kind) if len(self.columns) == 1 else RELATED_TABLE

    def cell(self, rows: Sequence[Sequence[Any]]) -> Any:
        """What a row shows of its related rows, given their values as JSON."""
        if len(self.columns) == 1:
            return [value for (value,) in rows]
        return {"columns": [column.name for column in self.columns], "rows": rows}


@dataclass(frozen=True, slots=True)
class Computed:
    """A column of ``list_display`` that is no field: a function computes its value from a row."""

    name: str
    title: str
    #: The value for an instance of the model. Raises whatever the project's function raises.
    value_of: Callable[[Any], Any]
    #: The column that an order by this name uses: ``admin_order_field``, if the principal may read it.
    order: Column | None = None
    #: Whether that order is reversed.
    descending: bool = False
    kind = COMPUTED

    def read(self, instance: Any) -> Any:
        """The value as JSON, of HTML its text. None for a row that is not there, as an empty cell of the admin.

        Raises whatever else the project's function raises.
        """
        try:
            value = self.value_of(instance)
        except ObjectDoesNotExist:
            return None
        return text_of(str(value.__html__())) if hasattr(value, "__html__") else DATA.write(value)


#: What a query may ask to read.
Output = Column | RelatedCount | RelatedRows | Computed
