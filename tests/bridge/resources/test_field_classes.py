"""Fields of other classes than Django's own: which are taken for what they are made from, and which stay hidden."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.apps.registry import Apps
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.test import override_settings
from django.test.utils import isolate_apps

from mcp_django.bridge.declared.secrets import is_secret_field
from mcp_django.bridge.resources.fields.field_kinds import KNOWN, NAMED, differences, kind_of, look_up
from mcp_django.bridge.resources.fields.kinds import DATETIME, DECIMAL, FILE, INTEGER, TEXT, Kind
from tests.shop.fields import CodeField, OwnerKey, SealedField
from tests.shop.models import Parcel, Person

# A class of these tests has the older of the two hooks, which Django 6.1 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Field.get_placeholder is deprecated")


def field_of(*bases: type[Any], name: str = "OwnField", **attributes: Any) -> models.Field[Any, Any]:
    """A field of a class with these attributes of its own."""
    field: models.Field[Any, Any] = type(name, bases, attributes)(max_length=10)
    return field


def kind(field: models.Field[Any, Any]) -> Kind | None:
    return kind_of(field, named=False)


def method(*args: Any, **kwargs: Any) -> Any:
    """What a class may have in the place of a method of Django's."""


def typed(widget: type[forms.Widget]) -> Callable[..., Any]:
    return lambda self, **kwargs: forms.CharField(widget=widget)


MADE_FROM: list[tuple[Any, Kind]] = [
    (models.CharField, TEXT), (models.SlugField, TEXT), (models.TextField, TEXT), (models.EmailField, TEXT),
    (models.IntegerField, INTEGER), (models.PositiveSmallIntegerField, INTEGER), (models.DateTimeField, DATETIME),
    (models.FileField, FILE),
]  # fmt: skip


def test_a_subclass_without_a_part_in_its_values_is_what_it_is_made_from() -> None:
    for base, expected in MADE_FROM:

        class Nice(base):  # type: ignore[misc, valid-type]
            description = "Nice"

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)

            def get_internal_type(self) -> str:
                return str(super().get_internal_type())

            def own_method(self) -> None:
                pass

        class Nicer(Nice):
            pass

        assert kind(Nice()) is kind(Nicer()) is expected, base


def test_what_is_of_forms_and_migrations_and_saving_has_no_part_in_values() -> None:
    for name in (
        "check", "clean", "deconstruct", "get_default", "pre_save", "save_form_data", "validate", "value_to_string",
        "_check_max_length_attribute",
    ):  # fmt: skip
        assert kind(field_of(models.CharField, **{name: method})) is TEXT, name


PARTS = [
    "from_db_value", "get_db_converters", "get_prep_value", "get_db_prep_value", "get_db_prep_save", "to_python",
    "value_from_object", "contribute_to_class", "select_format", "get_placeholder", "get_placeholder_sql", "db_type",
    "cast_db_type", "rel_db_type", "db_parameters", "get_col", "cached_col", "get_lookup", "get_transform",
    "get_lookups", "path_infos", "target_field", "get_attname", "set_attributes_from_name", "resolve_expression",
    "__getattribute__", "__getattr__", "__get__", "__eq__", "__deepcopy__",
]  # fmt: skip


def test_each_part_in_values_makes_a_class_doubtful_and_hides_it_with_the_reason() -> None:
    for name in PARTS:
        cls = type("OwnField", (models.CharField,), {name: method})
        # Made without __init__, since some of these would break it.
        assert next(differences(object.__new__(cls), models.CharField)) == name
    for name in ("from_db_value", "get_prep_value", "get_db_prep_save", "to_python", "get_placeholder"):
        assert look_up(field_of(models.CharField, **{name: method}), named=False) == (
            None, f"is a OwnField, a class that is not known and has its own {name}",
        )  # fmt: skip


def test_a_class_with_a_descriptor_a_type_of_column_or_a_metaclass_of_its_own_is_hidden() -> None:
    meta = type("Meta", (type,), {})

    assert kind(field_of(models.CharField, descriptor_class=property)) is None
    assert kind(field_of(models.CharField, get_internal_type=lambda self: "BinaryField")) is None
    assert kind(meta("OwnField", (models.CharField,), {})()) is None


def test_a_class_that_lookups_are_registered_on_is_hidden() -> None:
    class Sounding(models.CharField[Any, Any]):
        pass

    assert kind(Sounding()) is TEXT

    Sounding.register_lookup(models.lookups.IExact, "exact")

    assert kind(Sounding()) is None


class Decrypts:
    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return value


class StoredOtherwise(models.Field[Any, Any]):
    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        return value


def test_a_mixin_that_has_a_part_in_values_hides_wherever_it_stands() -> None:
    for mixin in (Decrypts, StoredOtherwise):
        for bases in ((mixin, models.CharField), (models.CharField, mixin)):
            assert kind(field_of(*bases)) is None, bases
            assert kind(type("Child", (type(field_of(*bases)),), {})()) is None, bases


def test_a_field_whose_own_attributes_have_a_part_in_its_values_is_hidden() -> None:
    for name in ("from_db_value", "get_prep_value", "get_placeholder", "descriptor_class"):
        field: models.Field[Any, Any] = models.CharField(max_length=10)
        vars(field)[name] = method
        assert kind(field) is None, name


def test_what_django_keeps_on_a_field_does_not_hide_it() -> None:
    owner: Any = Parcel._meta.get_field("owner")
    kept = (owner.path_infos, owner.reverse_path_infos, owner.foreign_related_fields, owner.cached_col)

    assert all(kept)
    assert kind(owner) is INTEGER


def test_django_may_keep_something_on_a_field_while_it_is_looked_at() -> None:
    """Another thread may be the first one to use the field."""
    field: models.Field[Any, Any] = models.CharField(max_length=5)
    vars(field)["from_db_value"] = method
    found = differences(field, models.CharField)
    assert next(found) == "from_db_value"

    vars(field)["kept_late"] = 1

    assert list(found) == []


def test_a_class_that_is_named_for_secrets_is_hidden_whatever_it_does() -> None:
    for name in (
        "UrlsafeTokenField", "PasswordField", "EncryptedCharField", "CryptoField", "PGPTextField", "FernetField",
        "HashedField", "SecureTextField", "RandomCharField", "SensitiveField", "PINField", "TextHMACField",
    ):  # fmt: skip
        field = field_of(models.CharField, name=name)
        assert look_up(field, named=False) == (
            None, f"is a {name}, a class that is named as if its values were secrets",
        )  # fmt: skip
        assert kind(field_of(type(field))) is None


def test_a_class_whose_form_shows_dots_is_hidden() -> None:
    assert kind(field_of(models.CharField, formfield=typed(forms.TextInput))) is TEXT
    assert kind(field_of(models.CharField, formfield=typed(forms.PasswordInput))) is None


def test_a_named_field_that_has_a_part_in_its_values_has_few_lookups() -> None:
    found = kind_of(SealedField(), named=True)

    assert found is not None
    assert (found.name, found.lookups, found.orderable) == ("text", ("exact", "in", "isnull"), False)


def test_a_named_field_of_a_plain_class_has_all_lookups() -> None:
    assert kind_of(CodeField(), named=True) is TEXT
    assert kind_of(field_of(models.CharField, name="EncryptedField"), named=True) is TEXT


def test_a_named_array_that_has_a_part_in_its_values_is_only_asked_for_null() -> None:
    class OwnArray(ArrayField):  # type: ignore[type-arg]
        def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
            return value

    field = OwnArray(models.TextField())

    assert kind(field) is None
    found = kind_of(field, named=True)
    assert found is not None and found.lookups == ("isnull",)


def test_an_array_of_a_plain_class_is_one_of_what_that_is_made_from() -> None:
    class ChoicesArray(ArrayField):  # type: ignore[type-arg]
        pass

    assert kind(ChoicesArray(CodeField())) is kind(ArrayField(models.TextField()))
    assert kind(ArrayField(SealedField())) is None


# Classes of packages.


def stand_in(path: str, *bases: type[Any], **attributes: Any) -> type[Any]:
    """A class that has the path of a package's."""
    module, _, name = path.rpartition(".")
    return type(name, bases, {"__module__": module, **attributes})


OVERRIDES = {"from_db_value": method, "to_python": method, "contribute_to_class": method, "attr_class": str}


def test_a_class_of_a_known_package_is_of_its_kind() -> None:
    for path, name in KNOWN.items():
        found = kind(stand_in(path, models.CharField, **OVERRIDES)())
        if name is None:
            assert found is TEXT, path
        elif name == "approximate date":
            assert found is not None and found.orderable and "gte" in found.lookups
        else:
            assert found is not None and found.name == name, path
            assert set(found.lookups) <= {"exact", "in", "isnull"} and not found.orderable, path


def test_a_subclass_of_a_known_class_is_of_its_kind_unless_it_is_encrypted() -> None:
    phone = stand_in("phonenumber_field.modelfields.PhoneNumberField", models.CharField, **OVERRIDES)
    status = stand_in("model_utils.fields.StatusField", models.CharField, contribute_to_class=method)

    assert kind(field_of(phone)) is kind(phone())
    assert kind(field_of(phone, from_db_value=method)) is None
    assert kind(field_of(status, from_db_value=method)) is None
    assert kind(field_of(Decrypts, phone)) is None


class Markup:
    """A text, and what is made of it."""

    def __init__(self, raw: str) -> None:
        self.raw = raw

    def __str__(self) -> str:
        return f"<p>{self.raw}</p>"


class MarkupDescriptor:
    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, row: Any, model: Any = None) -> Any:
        return self if row is None else Markup(row.__dict__[self.name])

    def __set__(self, row: Any, value: Any) -> None:
        row.__dict__[self.name] = value


class MarkedField(models.TextField):  # type: ignore[type-arg]
    def contribute_to_class(self, cls: Any, name: str, *args: Any, **kwargs: Any) -> None:
        super().contribute_to_class(cls, name, *args, **kwargs)
        setattr(cls, name, MarkupDescriptor(name))

    def get_prep_value(self, value: Any) -> Any:
        return getattr(value, "raw", value)


def of_model(cls: type[Any]) -> Any:
    """A field of the class in a model that no registry knows."""
    meta = type("Meta", (), {"app_label": "tests", "apps": Apps()})
    model: Any = type("Page", (models.Model,), {"__module__": __name__, "Meta": meta, "text": cls()})
    return model._meta.get_field("text")


def test_a_field_whose_rows_have_its_text_as_raw_is_a_text() -> None:
    field = of_model(MarkedField)

    assert kind(field) is TEXT and TEXT.write(Markup("*a*")) == "*a*"
    for hook, given in (
        ("get_prep_value", lambda self, value: getattr(value, "raw", value)[::-1]),
        ("get_prep_value", lambda self, value: value),
        ("from_db_value", lambda self, value, *args: value),
    ):
        assert kind(of_model(type("Sealed", (MarkedField,), {hook: given}))) is None


def test_values_of_packages_are_written_as_they_are_stored() -> None:
    class Money:
        amount = Decimal("9.50")

    day = type("ApproximateDate", (), {"__repr__": lambda self: "2021-03-00", "__str__": lambda self: "March 2021"})
    dates = kind(stand_in("django_date_extensions.fields.ApproximateDateField", models.CharField, **OVERRIDES)())

    assert DECIMAL.write(Money()) == "9.50" and dates is not None
    assert (dates.write(day()), dates.write("")) == ("2021-03-00", "")


def test_a_class_of_a_package_that_is_made_from_no_known_class_is_known_too() -> None:
    found = kind(stand_in("timezone_field.fields.TimeZoneField", models.Field)())

    assert found is not None and found.name == "text"


# Relations and keys.


def model_of(name: str = "Made", /, **fields: models.Field[Any, Any]) -> type[models.Model]:
    with isolate_apps("tests.shop"):
        meta = type("Meta", (), {"app_label": "shop"})
        return type(name, (models.Model,), {"__module__": __name__, "Meta": meta, **fields})


def test_a_foreign_key_of_a_plain_class_and_of_one_that_protects_rows_holds_keys() -> None:
    model = model_of(owner=type("ProtectedForeignKey", (models.ForeignKey,), {})(Person, models.PROTECT))

    assert kind(model._meta.get_field("owner")) is INTEGER
    assert kind(Parcel._meta.get_field("owner")) is INTEGER


@pytest.mark.parametrize("base", [models.ForeignKey, models.OneToOneField])
def test_a_foreign_key_that_has_a_part_in_its_values_is_hidden(base: type[Any]) -> None:
    cls = type("OddKey", (base,), {"get_prep_value": method})
    model = model_of(owner=cls(Person, models.CASCADE), plain=base(Person, models.CASCADE, related_name="+"))

    assert kind(model._meta.get_field("plain")) is INTEGER
    assert look_up(model._meta.get_field("owner"), named=False) == (
        None, "is a OddKey, a class that is not known and has its own get_prep_value",
    )  # fmt: skip
    assert kind_of(model._meta.get_field("owner"), named=True) is INTEGER


def test_a_foreign_key_to_a_key_that_is_hidden_is_hidden() -> None:
    target = model_of("Target", key=SealedField(primary_key=True, max_length=10))
    model = model_of(owner=OwnerKey(target, models.CASCADE, related_name="+"))

    assert kind(target._meta.pk) is None
    assert kind(model._meta.get_field("owner")) is None


def test_a_key_that_may_read_two_values_as_one_is_hidden_unless_it_is_named() -> None:
    upper = stand_in("oscar.models.fields.UppercaseCharField", models.CharField, from_db_value=method)
    target = model_of("Target", key=upper(primary_key=True, max_length=10))
    model = model_of(owner=models.ForeignKey(target, models.CASCADE, related_name="+"), note=upper(max_length=5))

    assert kind(model._meta.get_field("note")) is not None
    for field in (target._meta.pk, model._meta.get_field("owner")):
        assert look_up(field, named=False) == (
            None, "is a key, and a UppercaseCharField, which may read two values as the same one",
        )  # fmt: skip
        assert kind_of(field, named=True) is not None


def test_a_key_of_a_class_that_the_settings_name_is_shown() -> None:
    target = model_of("Target", key=SealedField(primary_key=True, max_length=10))

    with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.SealedField": "text"}}):
        assert kind(target._meta.pk) is not None
    assert kind(target._meta.pk) is None


def test_a_generated_field_is_of_the_class_of_its_output() -> None:
    def generated(output: Any, cls: Any = models.GeneratedField) -> Any:
        return cls(expression=models.F("x"), output_field=output, db_persist=True)

    odd = type("OddField", (models.GeneratedField,), {"from_db_value": method})

    made = model_of("Made", x=models.IntegerField(), y=generated(models.BigIntegerField()))

    assert kind(made._meta.get_field("y")) is INTEGER
    assert kind(generated(CodeField())) is TEXT
    assert kind(generated(SealedField())) is None
    assert kind(generated(CodeField(), odd)) is None


# The setting.


def test_what_the_settings_say_of_a_class_holds_for_its_plain_subclasses() -> None:
    with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.SealedField": "integer"}}):
        for field in (SealedField(), field_of(SealedField)):
            found = kind(field)
            assert found is not None and found.name == "integer"
        assert kind(field_of(SealedField, from_db_value=method)) is None


def test_a_setting_that_cannot_be_used_shows_nothing() -> None:
    sealed = "tests.shop.fields.SealedField"
    for kinds in ({"tests.shop.fields.Nothing": "text"}, {"nothing": "text"}, {sealed: "nothing"}, {sealed: ["text"]}):
        with override_settings(MCP={"FIELD_KINDS": kinds}):
            assert kind(SealedField()) is None, kinds
            assert kind(CodeField()) is TEXT, kinds


def test_a_class_may_be_said_to_be_of_each_kind() -> None:
    for name in NAMED:
        with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.SealedField": name}}):
            found = kind(SealedField())
        assert found is not None and found.name == name
        assert found.schema == NAMED[name].schema
        assert not found.orderable and not found.searchable


def test_numbers_are_made_of_the_objects_of_a_class() -> None:
    class Meters:
        def __int__(self) -> int:
            return 5

        def __float__(self) -> float:
            return 5.5

    for name, expected in (("integer", 5), ("number", 5.5)):
        with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.SealedField": name}}):
            found = kind(SealedField())
        assert found is not None and found.write(Meters()) == expected


def test_money_is_a_decimal() -> None:
    found = kind(Parcel._meta.get_field("price"))

    assert found is not None and found.name == DECIMAL.name
    assert kind(Parcel._meta.get_field("price_currency")) is TEXT


def test_a_field_that_django_takes_for_another_one_has_its_own_kind_and_its_own_name() -> None:
    """django-markupfield gives the field that it adds the number of the next one."""
    for first, second in (("shown", "api_key"), ("api_key", "shown")):
        model = model_of("Target", shown=models.TextField(), api_key=SealedField(max_length=10))
        fields = {name: model._meta.get_field(name) for name in (first, second)}
        fields[second].creation_counter = fields[first].creation_counter

        assert fields[first] == fields[second]
        assert {name: (kind(field), is_secret_field(field)) for name, field in fields.items()} == {
            "shown": (TEXT, False), "api_key": (None, True),
        }  # fmt: skip
