"""Fields of several inputs, and widgets of a project."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.utils.html import format_html

from tests.writes.lab.conftest import Lab
from tests.writes.lab.models import Meeting

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


def test_a_moment_of_two_inputs_is_taken_away(lab: Lab, meeting: Meeting) -> None:
    made = lab.same(Meeting, meeting, values={"begins": None}, typed={"begins_0": "", "begins_1": ""})

    assert made.of(Meeting)[0]["begins"] is None


def test_a_day_of_three_selects_is_changed(lab: Lab, meeting: Meeting) -> None:
    made = lab.same(
        Meeting, meeting, values={"day": "2025-03-01"}, typed={"day_year": "2025", "day_month": "3", "day_day": "1"}
    )

    assert made.of(Meeting)[0]["day"] == datetime.date(2025, 3, 1)


@pytest.mark.parametrize(("given", "chosen"), [(None, "unknown"), (False, "false")])
def test_yes_or_no_or_unknown_is_chosen(lab: Lab, meeting: Meeting, given: bool | None, chosen: str) -> None:
    made = lab.same(Meeting, meeting, values={"agreed": given}, typed={"agreed": chosen})

    assert made.of(Meeting)[0]["agreed"] is given


def test_a_text_of_two_inputs_is_changed(lab: Lab, meeting: Meeting) -> None:
    made = lab.same(Meeting, meeting, values={"room": "south-six"}, typed={"room_wing": "south", "room": "six"})

    assert made.of(Meeting)[0]["room"] == "south-six"


def test_a_widget_with_inputs_of_its_own_is_filled_in(lab: Lab, meeting: Meeting) -> None:
    made = lab.same(Meeting, meeting, values={"colour": "red"}, typed={"colour-backwards": "der"})

    assert made.of(Meeting)[0]["colour"] == "red"


def test_boxes_whose_words_are_one_text_are_ticked(lab: Lab, meeting: Meeting) -> None:
    made = lab.same(Meeting, meeting, values={"tags": "b,c"}, typed={"tags": ["b", "c"]})

    assert made.of(Meeting)[0]["tags"] == "b,c"


def test_one_changed_field_leaves_those_of_all_widgets(lab: Lab, meeting: Meeting) -> None:
    before = Meeting.objects.values().get()

    made = lab.same(Meeting, meeting, values={"name": "Lunch"})

    assert made.of(Meeting) == [{**before, "name": "Lunch"}]
    assert made.log[0]["message"] == "Changed Name."


def test_a_default_that_is_computed_is_kept_if_nobody_fills_it_in(lab: Lab) -> None:
    """Its hidden input says what the page had shown."""
    lab.admin(Meeting, fields=["name", "noted"])

    made = lab.same(Meeting, values={"name": "Breakfast"})

    assert made.of(Meeting)[0]["noted"] == "now"


def test_a_default_that_is_computed_is_filled_in(lab: Lab) -> None:
    lab.admin(Meeting, fields=["name", "noted"])

    made = lab.same(
        Meeting,
        values={"name": "Breakfast", "noted": MOMENT.isoformat()},
        typed={"name": "Breakfast", "noted_0": "2024-05-01", "noted_1": "08:30:00"},
    )

    assert made.of(Meeting)[0]["noted"] == MOMENT


def test_a_stored_moment_with_a_computed_default_is_changed(lab: Lab, meeting: Meeting) -> None:
    later = MOMENT + datetime.timedelta(hours=1)
    lab.site.admin_sites[0].unregister(Meeting)
    lab.admin(Meeting, fields=["name", "noted"])

    made = lab.same(Meeting, meeting, values={"noted": later.isoformat()}, typed={"noted_1": "09:30:00"})

    assert made.of(Meeting)[0]["noted"] == later
