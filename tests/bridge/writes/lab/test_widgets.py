"""Fields of several inputs, and widgets of a project."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.utils.html import format_html

from mcp_django.bridge.writes.form_data import FormData
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Meeting

Admin: Any = admin.ModelAdmin
MOMENT = datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.UTC)


class TwoWords(forms.MultiWidget):
    def __init__(self) -> None:
        super().__init__({"wing": forms.TextInput(), "": forms.TextInput()})

    def decompress(self, value: Any) -> list[str]:
        return value.split("-") if value else ["", ""]


class TwoWordsField(forms.MultiValueField):
    widget = TwoWords

    def __init__(self, **options: Any) -> None:
        super().__init__([forms.CharField(required=False), forms.CharField(required=False)], **options)

    def compress(self, values: Any) -> str:
        return "-".join(values)


class Backwards(forms.TextInput):
    """Shows its text backwards, in an input of another name."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        return format_html('<input type="text" name="{}-backwards" value="{}">', name, (value or "")[::-1])

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        return str(data.get(f"{name}-backwards", ""))[::-1]

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return f"{name}-backwards" not in data


class WordsField(forms.MultipleChoiceField):
    """Boxes for words that are stored in one text."""

    widget = forms.CheckboxSelectMultiple

    def prepare_value(self, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) and value else value or []

    def clean(self, value: Any) -> str:
        return ",".join(super().clean(value))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


class MeetingForm(forms.ModelForm):
    day = forms.DateField(required=False, widget=forms.SelectDateWidget(years=range(2020, 2030)))
    room = TwoWordsField(required=False)
    colour = forms.CharField(required=False, widget=Backwards)
    tags = WordsField(required=False, choices=[("a", "A"), ("b", "B"), ("c", "C")])


class MeetingAdmin(Admin):
    form = MeetingForm
    fields = ["name", "begins", "day", "agreed", "room", "colour", "tags"]


@pytest.fixture
def meeting(lab: Lab) -> Meeting:
    lab.admin(Meeting, MeetingAdmin)
    day = datetime.date(2024, 2, 29)
    return Meeting.objects.create(
        name="Breakfast",
        begins=MOMENT,
        day=day,
        agreed=True,
        room="north-two",
        colour="green",
        tags="a,c",
        noted=MOMENT,
    )


def test_a_moment_of_two_inputs_is_set(lab: Lab) -> None:
    lab.admin(Meeting, MeetingAdmin)

    made = lab.same(
        Meeting,
        values={"name": "Breakfast", "begins": "2024-05-01T08:30:00-04:00"},
        typed={"name": "Breakfast", "begins_0": "2024-05-01", "begins_1": "08:30:00"},
    )

    assert made.of(Meeting)[0]["begins"] == MOMENT


class FilledByScript(forms.Textarea):
    """Shows an empty text, which a script fills from beside it."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        text = '<textarea name="{}"></textarea><script>area.value = "{}"</script>'
        return format_html(text, name, value or "")


class LoadedByScript(forms.SelectMultiple):
    """Shows a list without options, which a script loads."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        return format_html('<select name="{}" multiple data-chosen="{}"></select>', name, value)


class WrittenOnly(forms.PasswordInput):
    """Shows nothing of what is stored, and a script that does not fill it in."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        return format_html('<input type="password" name="{}"><script>meter()</script>', name)


def test_inputs_that_a_script_fills_are_sent_as_they_are_filled(lab: Lab, meeting: Meeting) -> None:
    class Form(MeetingForm):
        colour = forms.CharField(required=False, widget=FilledByScript)
        tags = WordsField(required=False, choices=[("a", "A"), ("b", "B"), ("c", "C")], widget=LoadedByScript)

    lab.admin(Meeting, form=Form, fields=["name", "colour", "tags"])
    before = Meeting.objects.values().get()

    made = lab.same(
        Meeting, meeting, values={"name": "Lunch"}, typed={"name": "Lunch", "colour": "green", "tags": ["a", "c"]}
    )

    assert made.of(Meeting) == [{**before, "name": "Lunch"}]


def test_an_input_that_shows_nothing_of_what_is_stored_is_sent_empty() -> None:
    class Form(forms.Form):
        pin = forms.CharField(widget=WrittenOnly)

    data = FormData()
    data.write(Form()["pin"], "4711")

    assert data.values == {"pin": [""]}


#: What an agent gives, what a person types, and what is stored.
CHANGES: dict[str, tuple[Any, dict[str, str], Any]] = {
    "begins": (None, {"begins_0": "", "begins_1": ""}, None),
    "day": ("2025-03-01", {"day_year": "2025", "day_month": "3", "day_day": "1"}, datetime.date(2025, 3, 1)),
    "agreed": (None, {"agreed": "unknown"}, None),
    "room": ("south-six", {"room_wing": "south", "room": "six"}, "south-six"),
    "colour": ("red", {"colour-backwards": "der"}, "red"),
    "tags": ("b,c", {"tags": ["b", "c"]}, "b,c"),  # type: ignore[dict-item]
}


def test_fields_of_several_inputs_and_of_widgets_of_the_project_are_changed(lab: Lab, meeting: Meeting) -> None:
    before = Meeting.objects.values().get()
    for name, (given, typed, stored) in CHANGES.items():
        made = lab.same(Meeting, meeting, values={name: given}, typed=typed)

        assert made.of(Meeting) == [{**before, name: stored}], name

    assert lab.same(Meeting, meeting, values={"agreed": False}, typed={"agreed": "false"}).of(Meeting) == [
        {**before, "agreed": False}
    ]


def test_one_changed_field_leaves_those_of_all_widgets(lab: Lab, meeting: Meeting) -> None:
    before = Meeting.objects.values().get()

    made = lab.same(Meeting, meeting, values={"name": "Lunch"})

    assert made.of(Meeting) == [{**before, "name": "Lunch"}]
    assert made.log[0]["message"] == "Changed Name."


def test_a_default_that_is_computed_is_kept_or_filled_in(lab: Lab, meeting: Meeting) -> None:
    """Its hidden input says what the page had shown."""
    lab.admin(Meeting, fields=["name", "noted"])
    values, later = {"name": "Breakfast", "noted": MOMENT.isoformat()}, MOMENT + datetime.timedelta(hours=1)
    typed = {"name": "Breakfast", "noted_0": "2024-05-01", "noted_1": "08:30:00"}

    kept = lab.same(Meeting, values={"name": "Breakfast"})
    filled = lab.same(Meeting, values=values, typed=typed)
    changed = lab.same(Meeting, meeting, values={"noted": later.isoformat()}, typed={"noted_1": "09:30:00"})

    assert kept.of(Meeting)[1]["noted"] == "now"
    assert filled.of(Meeting)[1]["noted"] == MOMENT
    assert changed.of(Meeting)[0]["noted"] == later
