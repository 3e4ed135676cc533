"""Rows of any model: a few, with a value in each field that can be recognised wherever it turns up."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import models, router, transaction
from django.forms.models import _get_foreign_key

Model = type[models.Model]
#: How a project makes a row of a model that asks for more than its fields: a node of a tree, say.
Makers = Mapping[str, Callable[["Factory", Model], models.Model]]

ROWS = 2
_NEWS = datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
#: The longest way through foreign keys on which rows are made.
_DEPTH = 6
#: The first marks. Six characters, and numbers that no page has by itself.
_FIRST_WORD, _FIRST_NUMBER = 36**3, 47_100_000


class Factory:
    """Makes rows, and knows which mark is in which field."""

    def __init__(self, makers: Makers) -> None:
        #: The field of each mark, as ``app.model.field``.
        self.marks: dict[str, str] = {}
        #: Why there is no row of a model.
        self.failed: dict[Model, str] = {}
        self._makers = makers
        self._numbers = itertools.count()
        self._made: dict[Model, list[models.Model]] = {}

    def rows_of(self, model: Model, count: int = ROWS) -> list[models.Model]:
        """The rows that were made of a model, which are made first if there are fewer. None where it cannot be done."""
        made = self._made.setdefault(model, [])
        while len(made) < count and model not in self.failed:
            try:
                made.append(self.make(model))
            except Exception as error:  # noqa: BLE001 - it is reported
                text = str(error).splitlines()
                self.failed[model] = f"{type(error).__name__}: {text[0] if text else ''}"
        return made

    def make(self, model: Model, depth: int = 0, **given: Any) -> models.Model:
        """A new row with these values. Raises everything that the model raises."""
        with transaction.atomic(using=router.db_for_write(model)):
            maker = self._makers.get(model._meta.label_lower)
            if maker is not None:
                return maker(self, model)
            row = model(**{**self.values(model, depth, set(given)), **given})
            return self._saved(row)

    def values(self, model: Model, depth: int = 0, without: set[str] | None = None) -> dict[str, Any]:
        """A value for each field of a new row, without those that save themselves."""
        found = dict(self._generic(model))
        for field in model._meta.concrete_fields:
            names = {field.name, field.attname}
            if names & {*found, *(without or ())} or field.generated or isinstance(field, models.AutoField):
                continue
            if field.remote_field is not None and field.remote_field.parent_link:
                continue
            if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False):
                continue
            value = self._related(field, depth) if field.is_relation else self.value(field)
            if value is not None:
                found[field.name] = value
        return found

    def value(self, field: Any) -> Any:
        """A value that the field takes, with a mark where there is room for one; None to leave it as it is."""
        if field.flatchoices:
            return next((value for value, _ in field.flatchoices if value not in (None, "")), None)
        for kind, make in _VALUES.items():
            if isinstance(field, kind):
                return make(self, field)
        return None

    def word(self, field: Any) -> str:
        """A mark of six characters, or less where the field holds no more, which is then no mark."""
        number = next(self._numbers)
        mark = f"qz{_base36(_FIRST_WORD + number)}"
        if field.max_length and field.max_length < len(mark):
            return mark[-field.max_length :]
        return self._mark(mark, field)

    def number(self, field: Any) -> int:
        return int(self._mark(str(_FIRST_NUMBER + next(self._numbers)), field))

    def small(self) -> int:
        return next(self._numbers) % 90 + 1

    def _mark(self, mark: str, field: Any) -> str:
        self.marks[mark] = f"{field.model._meta.label_lower}.{field.name}"
        return mark

    def _saved(self, row: models.Model) -> models.Model:
        try:
            with transaction.atomic(using=router.db_for_write(type(row))):
                row.save()
        except (TypeError, ValueError, NotImplementedError):
            # A save() that asks for more than a row, as some have it that only forms call.
            [row] = type(row)._base_manager.bulk_create([row])
        return row

    def _related(self, field: Any, depth: int) -> Any:
        target = field.related_model
        if target is ContentType:
            return ContentType.objects.get_for_model(ContentType)
        if depth >= _DEPTH:
            return None
        made = [] if field.unique or _is_in_unique_set(field) else self._made.get(target, [])
        if made:
            return made[-1]
        if target is field.model or target._meta.concrete_model is field.model._meta.concrete_model:
            return None
        with suppress(Exception):
            row = self.make(target, depth + 1)
            self._made.setdefault(target, []).append(row)
            return row
        return None

    def _generic(self, model: Model) -> Iterator[tuple[str, Any]]:
        """A generic foreign key points to a content type, which every project has."""
        for field in model._meta.private_fields:
            if hasattr(field, "ct_field"):
                target = ContentType.objects.get_for_model(ContentType)
                yield field.ct_field, target
                yield field.fk_field, target.pk

    def fill_inlines(self, model_admin: Any, parent: models.Model) -> None:
        """Make a row for each inline of a ModelAdmin that has none for the parent."""
        for inline in model_admin.inlines:
            with suppress(Exception):
                self.make(inline.model, **_link(inline, parent))

    def relate(self, row: models.Model) -> None:
        """Put one row into each many-to-many field whose table is Django's own."""
        for field in row._meta.many_to_many:
            through = field.remote_field.through
            if through is not None and through._meta.auto_created:
                with suppress(Exception), transaction.atomic():
                    getattr(row, field.name).add(self.rows_of(field.related_model, 1)[0])


def _is_in_unique_set(field: Any) -> bool:
    """Whether the field, together with others, has to differ in each row."""
    opts = field.model._meta
    return any(
        field.name in names for names in (*opts.unique_together, *(one.fields for one in opts.total_unique_constraints))
    )


def key_of(row: models.Model) -> str:
    """The key of a row, as pages write it."""
    try:
        return str(row.pk)
    except TypeError:  # The key of a test's model may be an object without a text.
        return repr(row.pk)


def _link(inline: Any, parent: models.Model) -> dict[str, Any]:
    """The values by which a row of an inline belongs to the parent."""
    if hasattr(inline, "ct_field"):
        concrete = inline.model._meta.get_field(inline.ct_field).remote_field.model
        return {inline.ct_field: concrete.objects.get_for_model(parent), inline.ct_fk_field: parent.pk}
    field = _get_foreign_key(type(parent), inline.model, fk_name=inline.fk_name)
    target = field.remote_field.get_related_field().model
    return {field.name: parent if isinstance(parent, target) else target._base_manager.get(pk=parent.pk)}


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text


def _decimal(factory: Factory, field: Any) -> Decimal:
    whole = (field.max_digits or 20) - (field.decimal_places or 0)
    return Decimal(factory.number(field) if whole >= 8 else factory.small() % 10**whole if whole else 0)


#: A value for each class of field; the first class that the field is of counts.
_VALUES: Mapping[Any, Callable[[Factory, Any], Any]] = {
    models.UUIDField: lambda factory, field: uuid.UUID(int=_FIRST_NUMBER + next(factory._numbers)),
    models.DateTimeField: lambda factory, field: _NEWS + datetime.timedelta(days=factory.small()),
    models.DateField: lambda factory, field: _NEWS.date() + datetime.timedelta(days=factory.small()),
    models.TimeField: lambda factory, field: datetime.time(4, 5),
    models.DurationField: lambda factory, field: datetime.timedelta(minutes=factory.small()),
    models.BooleanField: lambda factory, field: True,
    models.DecimalField: _decimal,
    models.FloatField: lambda factory, field: float(factory.number(field)),
    models.SmallIntegerField: lambda factory, field: factory.small(),
    models.PositiveSmallIntegerField: lambda factory, field: factory.small(),
    models.IntegerField: lambda factory, field: factory.number(field),
    models.JSONField: lambda factory, field: {"mark": factory.word(field)},
    models.BinaryField: lambda factory, field: factory.word(field).encode(),
    models.GenericIPAddressField: lambda factory, field: f"10.0.0.{factory.small()}",
    models.EmailField: lambda factory, field: f"{factory.word(field)}@example.com",
    models.URLField: lambda factory, field: f"https://example.com/{factory.word(field)}",
    models.FileField: lambda factory, field: f"{factory.word(field)}.txt",
    models.CharField: lambda factory, field: factory.word(field),
    models.TextField: lambda factory, field: factory.word(field),
}
