"""The form field for limits: for each kind a number and a period, beside what holds without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_django.exchange.rates import (
    BYTES,
    CALLS,
    CHANGES,
    KINDS,
    REFUSALS,
    ROWS,
    UNIQUE,
    WRITES,
    Rate,
    parse_limits,
    parse_rate,
    throttles,
    write_throttles,
)

_TITLES: Mapping[str, Promise] = {
    CALLS: _("Calls"),
    CHANGES: _("Calls that may change data"),
    ROWS: _("Rows read"),
    BYTES: _("Bytes read"),
    WRITES: _("Rows written"),
    REFUSALS: _("Refused attempts to write"),
    UNIQUE: _("New values that must be unique"),
}
#: Seconds of a period → the word that the field sends, and what a person reads.
_PERIODS: Mapping[int, tuple[str, Promise]] = {
    1: ("s", _("a second")),
    60: ("min", _("a minute")),
    3_600: ("hour", _("an hour")),
    86_400: ("day", _("a day")),
}
_RATES: Mapping[int, Promise] = {
    1: _("%(number)s a second"),
    60: _("%(number)s a minute"),
    3_600: _("%(number)s an hour"),
    86_400: _("%(number)s a day"),
}
_SUBJECTS: Mapping[str, Promise] = {
    "user": _("%(rates)s for the user"),
    "token": _("%(rates)s for each token"),
    "address": _("%(rates)s for each address"),
}

#: What is typed for one rate: a number, and the word of a period.
Typed = tuple[str, str]


def in_words(rates: Sequence[Rate]) -> str:
    """Such as "600 a minute, 10,000 a day"."""
    numbers = [(rate, number_format(rate.number, force_grouping=True)) for rate in rates]
    return ", ".join(str(_RATES[rate.seconds]) % {"number": number} for rate, number in numbers)


def limits_in_words(limits: Any) -> str:
    """The limits of a token, such as "Calls: 60 a minute"; empty without any."""
    return "; ".join(f"{_TITLES[kind]}: {in_words(rates)}" for kind, rates in parse_limits(limits or {}).items())


def holds_without(kind: str) -> str:
    """What the settings limit for every token, in words; empty where they do not."""
    limits = [*throttles().items(), *write_throttles().items()]
    declared = [(subject, in_words(one[kind])) for subject, one in limits if one.get(kind)]
    return "; ".join(str(_SUBJECTS[subject]) % {"rates": rates} for subject, rates in declared)


@dataclass(frozen=True, slots=True)
class _Row:
    """A number and a period."""

    id: str
    number: str
    period: str
    #: For those who cannot see beside what it is.
    label: str


class LimitsWidget(forms.Widget):
    """For each kind of limit a number and a period; one more of both where there are some already."""

    use_fieldset = True

    def id_for_label(self, id_: str | None) -> str:
        return ""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> dict[str, list[Typed]]:
        found: dict[str, list[Typed]] = {}
        for kind in KINDS:
            numbers, periods = (_texts(data, key) for key in (f"{name}-{kind}", f"{name}-{kind}-per"))
            # A number without a period is a mistake, and not no limit.
            found[kind] = [(number, period) for number, period in zip_longest(numbers, periods, fillvalue="")]
        return found

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return not any(f"{name}-{kind}" in data for kind in KINDS)

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        return render_to_string("mcp_django/limits.html", self.get_context(name, value, attrs))

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        typed = typed_of(value)
        prefix = (attrs or {}).get("id", f"id_{name}")
        kinds = [
            {
                "name": f"{name}-{kind}",
                "title": _TITLES[kind],
                "without": holds_without(kind),
                "rows": list(_rows(f"{prefix}_{kind}", kind, typed.get(kind, []))),
            }
            for kind in KINDS
        ]
        return {"kinds": kinds, "periods": [*_PERIODS.values()]}


def _rows(prefix: str, kind: str, typed: Sequence[Typed]) -> Iterator[_Row]:
    title = str(_TITLES[kind])
    for place, (number, period) in enumerate([*(one for one in typed if one[0]), ("", "min")]):
        label = gettext("%(kind)s, limit %(number)d") % {"kind": title, "number": place + 1} if place else title
        yield _Row(f"{prefix}_{place}", number, period, label)


def _texts(data: Any, key: str) -> list[str]:
    """What was sent under the key, once or several times."""
    if hasattr(data, "getlist"):
        return [str(one).strip() for one in data.getlist(key)]
    sent = data.get(key, [])
    return [str(one).strip() for one in (sent if isinstance(sent, list | tuple) else [sent])]


def typed_of(value: Any) -> dict[str, list[Typed]]:
    """What stands in the fields: for limits as they are stored, or for what was typed before."""
    if not isinstance(value, Mapping):
        return {}
    if all(isinstance(one, list) and all(isinstance(pair, tuple) for pair in one) for one in value.values()):
        return dict(value)
    return {
        kind: [(str(rate.number), _PERIODS[rate.seconds][0]) for rate in rates]
        for kind, rates in parse_limits(value).items()
    }


class LimitsField(forms.Field):
    """Limits, as ``{"calls": "60/min"}``; several rates of a kind are a list. What did not change stays as it was."""

    widget = LimitsWidget

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: The limits of a token that exists.
        self.kept: Any = {}

    def clean(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        wrong: list[ValidationError] = []
        for kind, typed in typed_of(value).items():
            rates = []
            for number, period in typed:
                if not number:
                    continue
                try:
                    rates.append(str(parse_rate(f"{number}/{period}")))
                except ValueError:
                    text = _("%(kind)s: write a whole number, 1 or more, in digits only, or leave it empty.")
                    wrong.append(ValidationError(text, params={"kind": _TITLES[kind]}))
            if rates:
                found[kind] = rates[0] if len(rates) == 1 else rates
        if wrong:
            raise ValidationError(wrong)
        return self.kept if _same(self.kept, found) else found

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return not _same(initial, self.clean(data))
        except ValidationError:
            return True


def _same(some: Any, others: Any) -> bool:
    return parse_limits(some or {}) == parse_limits(others or {})
