"""Triggers by which PostgreSQL itself reports changes: raw SQL, cascades, other programs, bulk operations.

They notify the channel of ``core.events.postgresql``, with payloads of the same form, in the transaction that makes the
change. A table has one trigger for each kind of statement. Its arguments are the models whose rows the table holds or
connects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.db import models, router
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql

from mcp_django.core.events.bus import configured_bus
from mcp_django.push.receivers import watch

Model = type[models.Model]

#: The kind of a statement → the clause that names the rows that it has changed.
_ROWS = {
    "insert": "REFERENCING NEW TABLE AS new_rows",
    "update": "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "delete": "REFERENCING OLD TABLE AS old_rows",
    "truncate": "",
}
#: Fields whose values the database casts to the same text as str().
_SPELT_ALIKE = (models.IntegerField, models.CharField, models.TextField, models.UUIDField)

# The arguments are the channel and the alias, and for each model its label, the column with its key (empty: there is
# none) and "row", or "relation" for a table that connects rows. More than 1,000 rows, or 32 payloads, become "the model
# changed". So does an error: the statement is not ours, and must not fail.
_BODY = """
DECLARE
  event constant text := '{"changes":[{"alias":%s,"label":%s,"written":%s,"deleted":%s}]}';
  alias constant text := to_json(TG_ARGV[1]);
  place integer := 2;
  label text;
  attribute text;
  number bigint;
  new_keys text[];
  old_keys text[];
  written text[];
  deleted text[];
  size integer;
  is_written boolean;
  keys text;
BEGIN
  IF TG_OP <> 'TRUNCATE' THEN
    BEGIN
      EXECUTE format(
        'SELECT count(*) FROM (SELECT FROM %I LIMIT 1001) AS changed',
        CASE TG_OP WHEN 'DELETE' THEN 'old_rows' ELSE 'new_rows' END
      ) INTO number;
    EXCEPTION WHEN OTHERS THEN
      number := NULL;
    END;
    IF number = 0 THEN
      RETURN NULL;
    END IF;
  END IF;
  WHILE place < TG_NARGS LOOP
    label := to_json(TG_ARGV[place]);
    attribute := TG_ARGV[place + 1];
    BEGIN
      written := NULL;
      IF number <= 1000 AND attribute <> '' THEN
        new_keys := NULL;
        old_keys := NULL;
        IF TG_OP <> 'DELETE' THEN
          EXECUTE format('SELECT array_agg(DISTINCT %1$I::text) FROM new_rows WHERE %1$I IS NOT NULL', attribute)
            INTO new_keys;
        END IF;
        IF TG_OP <> 'INSERT' THEN
          EXECUTE format('SELECT array_agg(DISTINCT %1$I::text) FROM old_rows WHERE %1$I IS NOT NULL', attribute)
            INTO old_keys;
        END IF;
        written := coalesce(new_keys, '{}');
        deleted := coalesce(old_keys, '{}');
        IF TG_OP = 'UPDATE' THEN
          deleted := CASE WHEN written = deleted THEN '{}' ELSE ARRAY(
            SELECT unnest(deleted) EXCEPT SELECT unnest(written)
          ) END;
        END IF;
        IF TG_ARGV[place + 2] = 'relation' THEN
          written := written || deleted;
          deleted := '{}';
        END IF;
      END IF;
      size := octet_length(array_to_json(written)::text) + octet_length(array_to_json(deleted)::text);
      IF written IS NULL OR size > 100000 OR size > 3400 AND EXISTS (
        SELECT FROM unnest(written || deleted) AS key WHERE octet_length(to_json(key)::text) > 3400
      ) THEN
        PERFORM pg_notify(TG_ARGV[0], format(event, alias, label, 'null', '[]'));
      ELSIF size <= 3400 THEN
        IF size > 4 THEN
          PERFORM pg_notify(
            TG_ARGV[0], format(event, alias, label, array_to_json(written), array_to_json(deleted))
          );
        END IF;
      ELSE
        FOR is_written, keys IN
          SELECT sized.is_written, array_to_json(array_agg(sized.key))
          FROM (
            SELECT changed.is_written, changed.key, sum(octet_length(to_json(changed.key)::text) + 1) OVER (
              PARTITION BY changed.is_written ORDER BY changed.key ROWS UNBOUNDED PRECEDING
            ) / 3400 AS part
            FROM (SELECT true, unnest(written) UNION ALL SELECT false, unnest(deleted)) AS changed (is_written, key)
          ) AS sized
          GROUP BY sized.is_written, sized.part
        LOOP
          PERFORM pg_notify(TG_ARGV[0], format(
            event, alias, label,
            CASE WHEN is_written THEN keys ELSE '[]' END,
            CASE WHEN is_written THEN '[]' ELSE keys END
          ));
        END LOOP;
      END IF;
    EXCEPTION WHEN OTHERS THEN
      PERFORM pg_notify(TG_ARGV[0], format(event, alias, label, 'null', '[]'));
    END;
    place := place + 3;
  END LOOP;
  RETURN NULL;
END
"""


@dataclass(frozen=True)
class Triggers:
    """The triggers of one table."""

    #: Its name in SQL.
    table: str
    #: The arguments of the function: the channel, the alias and the models.
    arguments: tuple[str, ...]

    def create(self) -> str:
        """The statements that make them, or make them anew."""
        arguments = ", ".join(_literal(argument) for argument in self.arguments)
        return "\n".join(
            f"CREATE OR REPLACE TRIGGER {_name(event)} AFTER {event.upper()} ON {self.table} {rows} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {_name('notify')}({arguments});"
            for event, rows in _ROWS.items()
        )

    def drop(self) -> str:
        return "\n".join(f"DROP TRIGGER IF EXISTS {_name(event)} ON {self.table};" for event in _ROWS)


def wanted() -> list[Triggers]:
    """The triggers of every table whose rows clients may watch, as the models declare it."""
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for model in sorted(watch.models(), key=lambda model: model._meta.label_lower):
        for table, column, kind in dict.fromkeys(_sources(model)):
            targets[table] += [model._meta.label_lower, column, kind]
    bus = configured_bus()
    return [Triggers(table, (bus.channel, bus.database or "", *found)) for table, found in sorted(targets.items())]


def _sources(model: Model) -> Iterator[tuple[str, str, str]]:
    """The tables whose changes concern the model: each with the column that holds its key, and "row" or "relation"."""
    lineage = list(_lineage(model))
    for owner in (model, *model._meta.get_parent_list()):
        if _is_here(owner):
            yield _table(owner), _spelt(owner._meta.pk) if owner in lineage else "", "row"
    near: list[Any] = [(field, field.m2m_field_name) for field in model._meta.many_to_many]
    relations: list[Any] = [relation for relation in model._meta.related_objects if relation.many_to_many]
    far = [(relation.field, relation.field.m2m_reverse_field_name) for relation in relations]
    for field, name in (*near, *far):
        through = field.remote_field.through
        key = through._meta.get_field(name())
        if _is_here(through):
            points_there = key.target_field.primary_key and key.related_model._meta.concrete_model in lineage
            yield _table(through), _spelt(key) if points_there else "", "relation"


def _lineage(model: Model) -> Iterator[Model]:
    """The model and its parents whose rows have the same key."""
    yield model
    key: Any = model._meta.pk
    if getattr(key.remote_field, "parent_link", False):
        yield from _lineage(key.related_model)


def _spelt(field: Any) -> str:
    """The column of a key, or empty where the database does not spell the key as Django does."""
    source = field
    while source.remote_field is not None:
        source = source.target_field
    spelt_alike = any(
        isinstance(source, known) and type(source).to_python is known.to_python and not hasattr(source, "from_db_value")
        for known in _SPELT_ALIKE
    )
    return str(field.column) if spelt_alike else ""


def _is_here(model: Model) -> bool:
    return router.allow_migrate_model(configured_bus().database or "", model)


def _table(model: Model) -> str:
    """The table's name in SQL. As in Django, a name in quotes is used as it is: ``"schema"."table"``."""
    name = model._meta.db_table
    return name if name.startswith('"') and name.endswith('"') else _identifier(name)


def _identifier(name: str) -> str:
    return sql.Identifier(name).as_string(None)


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


def _name(part: str) -> str:
    """A name of ours, in SQL. Each channel has a function and triggers of its own."""
    return _identifier(f"{configured_bus().channel}_{part}")


def create_function() -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {_name('notify')}() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = pg_catalog, pg_temp AS $mcp_django${_BODY}$mcp_django$;"
    )


def drop_function() -> str:
    """The statement that removes the function, with every trigger that calls it."""
    return f"DROP FUNCTION IF EXISTS {_name('notify')}() CASCADE;"


def create_all() -> str:
    """The statements that make everything anew in any database. Names that are no tables there get no triggers."""
    body = "\n".join(_create_if_table(triggers) for triggers in wanted())
    return f"{drop_function()}\n{create_function()}\nDO {_literal(f'BEGIN {body} END')};"


def _create_if_table(triggers: Triggers) -> str:
    found = f"SELECT FROM pg_class WHERE oid = to_regclass({_literal(triggers.table)}) AND relkind IN ('r', 'p')"
    return f"IF EXISTS ({found}) THEN\n{triggers.create()}\nEND IF;"


# The triggers in a database.


@dataclass(frozen=True)
class TriggerState:
    """How the triggers in a database differ from those that are wanted."""

    #: Whether the function that all triggers call exists, and is of this version.
    is_installed: bool
    is_current: bool
    #: The triggers that are missing, switched off, or different.
    stale: list[Triggers]
    #: The triggers of tables that clients can no longer watch.
    left_over: list[Triggers]
    #: Names that can have no trigger: views, foreign tables, and tables that do not exist.
    impossible: list[str]

    @property
    def problems(self) -> list[str]:
        """A sentence for each difference."""
        return [
            *([] if self.is_current else [f"The function {_name('notify')} is of another version."]),
            *(f"{triggers.table} does not report its changes, or not as it should." for triggers in self.stale),
            *(f"{triggers.table} reports changes that no client can watch any more." for triggers in self.left_over),
        ]


def state(connection: BaseDatabaseWrapper) -> TriggerState:
    """Look at the triggers of the database."""
    there, tables = _installed(connection)
    stale, impossible = [], []
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE oid = to_regproc(%s)", [_name("notify")])
        body = cursor.fetchone()
        for triggers in wanted():
            cursor.execute(_FIND_TABLE, [triggers.table])
            row = cursor.fetchone()
            if row is None:
                impossible.append(triggers.table)
            elif there.pop(row[0], None) != _as_stored(triggers):
                stale.append(replace(triggers, table=row[1]))
    left_over = sorted(tables[table] for table in there)
    return TriggerState(
        body is not None, body == (_BODY,), stale, [Triggers(table, ()) for table in left_over], impossible
    )


def installed(connection: BaseDatabaseWrapper) -> list[Triggers]:
    """The triggers of every table that has some."""
    return [Triggers(table, ()) for table in sorted(_installed(connection)[1].values())]


_FIND_TABLE = "SELECT oid, oid::regclass::text FROM pg_class WHERE oid = to_regclass(%s) AND relkind IN ('r', 'p')"
_FIND_TRIGGERS = """
SELECT tgrelid, tgrelid::regclass::text, tgname, tgargs, tgenabled IN ('O', 'A')
FROM pg_trigger WHERE tgfoid = to_regproc(%s)
"""

#: The arguments of triggers, and whether each is switched on, by their names.
_Stored = dict[str, tuple[bytes, bool]]


def _installed(connection: BaseDatabaseWrapper) -> tuple[dict[int, _Stored], dict[int, str]]:
    """Table → its triggers, and table → its name in SQL."""
    there: defaultdict[int, _Stored] = defaultdict(dict)
    tables: dict[int, str] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FIND_TRIGGERS, [_name("notify")])
        for table, written, name, arguments, is_on in cursor.fetchall():
            there[table][name] = (bytes(arguments), is_on)
            tables[table] = written
    return there, tables


def _as_stored(triggers: Triggers) -> _Stored:
    arguments = b"".join(argument.encode() + b"\0" for argument in triggers.arguments)
    return {f"{configured_bus().channel}_{event}": (arguments, True) for event in _ROWS}
