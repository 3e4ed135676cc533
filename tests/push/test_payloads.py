"""Events as payloads of NOTIFY: none is too long, and together they say what the event says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_django.core.events import payloads
from mcp_django.core.events.changed_rows import Changes, ModelChange
from mcp_django.core.events.controls import Control, ControlKind, ControlSet


def event_of(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"changes": list(changes), **more}


def change(label: str = "shop.tag", written: Any = (), deleted: Any = ()) -> dict[str, Any]:
    return {
        "alias": "default",
        "label": label,
        "written": None if written is None else list(written),
        "deleted": list(deleted),
    }


def said(cut: list[str]) -> tuple[Changes, ControlSet, bool]:
    """What the payloads say together."""
    changes, controls, lost = Changes(), ControlSet(), False
    for payload in cut:
        event = payloads.read(payload)
        assert event is not None
        assert len(payload.encode()) < 8_000
        for one in event.get("changes", ()):
            changes.note(one["alias"], one["label"], one["written"], one["deleted"])
        controls.update(ControlSet.from_json(event.get("controls", [])))
        lost = lost or event.get("lost", False)
    return changes, controls, lost


def test_what_fits_is_one_payload() -> None:
    event = event_of(change(written=["a"], deleted=["b"]), controls=[{"kind": "tools"}])

    assert [json.loads(payload) for payload in payloads.cut(event)] == [event]


KEYS_OF_TAGS = [f"key {number}" for number in range(900)], [f"gone {number}" for number in range(90)]
LABELS = [f"shop.model{number}" for number in range(500)]
CONTROLS = ControlSet(Control(ControlKind.SESSION, f"{number:0>64}") for number in range(500))


@pytest.mark.parametrize(("event", "changes", "controls"), [
    (event_of(change("shop.tag", *KEYS_OF_TAGS)), {"shop.tag": ModelChange(*map(set, KEYS_OF_TAGS))}, set()),
    (event_of(*(change(label, ["1"]) for label in LABELS)), dict.fromkeys(LABELS, ModelChange({"1"}, set())), set()),
    ({"controls": CONTROLS.as_json()}, {}, CONTROLS),
], ids=["keys", "models", "controls"])  # fmt: skip
def test_many_keys_models_or_controls_are_told_in_several_payloads(
    event: dict[str, Any], changes: dict[str, ModelChange], controls: ControlSet
) -> None:
    cut = payloads.cut(event)

    assert len(cut) > 1
    assert said(cut) == ({("default", label): one for label, one in changes.items()}, controls, False)


def test_more_than_32_payloads_of_keys_are_told_as_the_model() -> None:
    written = [f"{number:0>3400}" for number in range(65)]

    assert payloads.cut(event_of(change(written=written[:64]))) != payloads.cut(event_of(change(written=None)))
    assert payloads.cut(event_of(change(written=written))) == [payloads.write(event_of(change(written=None)))]


def test_a_key_that_fits_into_no_payload_is_told_as_the_model() -> None:
    cut = payloads.cut(event_of(change(written=["a", "b" * 9_000]), change("shop.book", written=["1"])))

    assert said(cut)[0] == {
        ("default", "shop.tag"): ModelChange(None, set()),
        ("default", "shop.book"): ModelChange({"1"}, set()),
    }


def test_what_no_payload_can_hold_or_needs_more_than_a_statement_takes_lets_everybody_look() -> None:
    controls = [Control(ControlKind.TASK, f"{number:0>7000}").as_json() for number in range(1_001)]

    assert len(payloads.cut({"controls": controls[1:]})) == 1_000
    assert payloads.cut({"controls": controls}) == ['{"lost":true}']
    assert payloads.cut({"controls": [Control(ControlKind.TASK, "x" * 9_000).as_json()]}) == ['{"lost":true}']


def test_that_events_were_lost_is_told_once() -> None:
    cut = payloads.cut(event_of(change(written=[f"key {number}" for number in range(2_000)]), lost=True))

    assert [json.loads(payload).get("lost") for payload in cut] == [True, *[None] * (len(cut) - 1)]


KEYS = st.lists(st.text(st.characters(), max_size=300), max_size=200, unique=True)


@given(
    written=st.none() | KEYS,
    deleted=KEYS,
    controls=st.sets(st.builds(Control, st.sampled_from(ControlKind), st.text(max_size=100)), max_size=100),
    lost=st.booleans(),
)
def test_whatever_changed_is_told_in_payloads_that_fit(
    written: list[str] | None, deleted: list[str], controls: set[Control], lost: bool
) -> None:
    told = ControlSet(controls).as_json()
    event = event_of(change(written=written, deleted=[] if written is None else deleted), controls=told, lost=lost)

    changes, told_controls, told_lost = said(payloads.cut(event))

    expected = Changes()
    for one in event["changes"]:
        expected.note(one["alias"], one["label"], one["written"], one["deleted"])
    assert (changes, told_controls, told_lost) == (expected, controls, lost)


def test_a_control_of_a_newer_version_is_ignored_and_the_others_are_not() -> None:
    event = payloads.read('{"controls":[{"kind":"brand_new","key":"x"},{"kind":"session","key":"y"}]}')

    assert event is not None
    assert ControlSet.from_json(event["controls"]) == {Control(ControlKind.SESSION, "y")}


STRANGE = [
    "", "rubbish", "null", "[]", '"text"', "[" * 5_000, '{"publisher":"x","number":9}', '{"lost":[]}', '{"changes":{}}',
    '{"changes":[null]}', '{"changes":[{"alias":"default","label":"shop.tag"}]}',
    *(
        f'{{"changes":[{{"alias":{alias},"label":"shop.tag","written":{written},"deleted":{deleted}}}]}}'
        for alias, written, deleted in (
            ('"x"', '"a"', "[]"), ('"x"', "[1]", "[]"), ('"x"', "[]", "null"), ("[]", "[]", "[]"),
        )
    ),
    *(
        f'{{"controls":{controls}}}'
        for controls in (
            '"tools"', "[1]", '["tools"]', "[{}]", '[{"key":"x"}]', '[{"kind":[]}]', '[{"kind":"session","key":1}]',
            '[{"kind":"session","name":"x"}]',
        )
    ),
]  # fmt: skip


def test_a_stranger_who_notifies_something_else_is_not_heard() -> None:
    assert {payload: payloads.read(payload) for payload in STRANGE} == dict.fromkeys(STRANGE)
