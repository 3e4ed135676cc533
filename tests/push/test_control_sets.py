"""Controls: how they are written, read and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet

CONTROLS = st.sets(st.builds(Control, st.sampled_from(ControlKind), st.text()))


def users(count: int, first: int = 0) -> set[Control]:
    return {Control(ControlKind.ACCESS, f"{number}") for number in range(first, first + count)}


@given(CONTROLS)
def test_controls_are_read_as_they_were_written(controls: set[Control]) -> None:
    written = ControlSet(controls).as_json()

    assert ControlSet.from_json(written) == controls


def test_controls_are_written_in_a_fixed_order_and_without_an_empty_key() -> None:
    controls = ControlSet({Control(ControlKind.TOOLS), Control(ControlKind.ACCESS, "2"), EVERYBODY})

    assert controls.as_json() == [{"kind": "access"}, {"kind": "access", "key": "2"}, {"kind": "tools"}]


def test_what_is_no_control_is_refused() -> None:
    for value in (None, "tools", 1, [], ["tools"], {}, {"key": "x"}, {"kind": 1}, {"kind": "task", "key": None}):
        with pytest.raises(ValueError, match="control"):
            ControlSet.from_json([{"kind": "tools"}, value])


def test_too_many_users_of_a_transaction_become_everybody() -> None:
    few, many = ControlSet(), ControlSet()

    for control in users(100):
        few.note(control)
    for control in users(101):
        many.note(control)

    assert few == users(100)
    assert many == {EVERYBODY}


def test_a_user_says_nothing_new_beside_everybody() -> None:
    controls = ControlSet()

    for control in (Control(ControlKind.ACCESS, "1"), EVERYBODY, Control(ControlKind.ACCESS, "2")):
        controls.note(control)

    assert controls == {EVERYBODY}


def test_users_of_many_transactions_are_kept() -> None:
    controls = ControlSet()

    controls.absorb(users(100))
    controls.absorb(users(100, first=100))

    assert controls == users(200)


def test_of_too_many_controls_those_without_a_key_are_kept() -> None:
    controls = ControlSet({Control(ControlKind.TOOLS), Control(ControlKind.ACCESS, "1")})

    controls.absorb(Control(ControlKind.SESSION, f"{number}") for number in range(10_000))

    assert controls == {Control(ControlKind.TOOLS), EVERYBODY}
