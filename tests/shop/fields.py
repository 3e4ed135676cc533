"""Field classes as projects and packages have them."""

import secrets
from typing import Any

from django.db import models


class CodeField(models.CharField[Any, Any]):
    """A subclass that has no part in its values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"max_length": 50, **kwargs})

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        return super().pre_save(model_instance, add)


class SealedField(models.CharField[Any, Any]):
    """Stores every text backwards, as an encrypted field stores it in another form."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else value[::-1]

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else str(value)[::-1]


class SealedBytesField(models.BinaryField[Any, Any]):
    """Stores one byte of each ten that it reads."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else bytes(value) * 10


class MaskedField(models.CharField[Any, Any]):
    """Shows the last two characters alone of what is stored."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else f"*{value[-2:]}"


class Size:
    """A value that is neither text nor number."""

    def __init__(self, text: str) -> None:
        if not text.isdigit():
            raise ValueError(f"{text} is no size")
        self.text = text

    def __str__(self) -> str:
        return f"size {self.text}"


class SizeField(models.CharField[Any, Any]):
    """Reads objects, and fails for what is none."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else Size(value)

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else Size(str(value).removeprefix("size ")).text


class OwnerKey(models.ForeignKey[Any, Any]):
    """A subclass that has no part in its values."""

    def formfield(self, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().formfield(**kwargs)


class MoneyField(models.DecimalField[Any, Any]):
    """As that of djmoney, whose values are amounts of another field's currency."""

    __module__ = "djmoney.models.fields"
    currency_field_name = None

    def to_python(self, value: Any) -> Any:
        return super().to_python(value)


class CurrencyField(models.CharField[Any, Any]):
    """As that of djmoney."""

    __module__ = "djmoney.models.fields"

    def contribute_to_class(self, cls: Any, name: str, *args: Any, **kwargs: Any) -> None:
        super().contribute_to_class(cls, name, *args, **kwargs)


class NoisyField(models.CharField[Any, Any]):
    """Stores other bytes each time, as an encrypting field does."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else value.partition(":")[2]

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else f"{secrets.token_hex(4)}:{value}"


class Box:
    """A value that equals no other one, and whose ``repr`` has its address."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class BoxField(models.CharField[Any, Any]):
    """Reads objects without a way to compare them."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else Box(value)

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else str(value)


class NullCharField(models.CharField[Any, Any]):
    """As that of oscar: stores an empty text as NULL, so that many rows may lack a unique value, and reads it back."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return "" if value is None else value

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(value) or None
