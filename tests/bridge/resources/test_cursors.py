"""Cursors: short, the same values after reading, and of use to nobody but their query and their principal."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.reading.cursors import MAX_CURSOR_CHARS, make_cursor, query_digest, read_values

DIGEST = query_digest("flights.flight", {"origin": "JFK"})
KEY = "user:1"
MOMENT = datetime.datetime(2013, 1, 31, 3, 30, 0, 123456, tzinfo=datetime.UTC)


def written(values: list[Any], digest: str = DIGEST, key: str = KEY) -> str:
    cursor = make_cursor(values, digest, key)
    assert cursor is not None
    return cursor


def is_refused(cursor: str, digest: str = DIGEST, key: str = KEY) -> bool:
    try:
        read_values(cursor, digest, key)
    except InvalidQuery as error:
        return [wrong["field"] for wrong in error.errors] == ["cursor"]
    return False


LENGTHS: list[tuple[list[Any], int]] = [
    ([336_776], 22),
    ([MOMENT, 336_776], 32),
    ([MOMENT, None, "UA", 336_776], 38),
    ([uuid.UUID(int=1), MOMENT], 51),
    ([datetime.date(2013, 1, 31), 2**63 - 1], 43),
    (["x" * 30], 59),
    (["x" * 20, "y" * 10], 60),
    (["x" * 15, "y" * 12, 336_776], 60),
    (["x" * 10, "y" * 10, "z" * 10], 60),
]  # fmt: skip


def test_a_cursor_has_at_most_sixty_characters_where_its_values_take_up_to_thirty_bytes() -> None:
    assert [len(written(values)) for values, _ in LENGTHS] == [chars for _, chars in LENGTHS]
    assert max(chars for _, chars in LENGTHS) == 60


VALUES = [
    (None, None), ("", ""), ("None", "None"), (0, "0"), (-1, "-1"), (127, "127"), (128, "128"), (-(2**63), f"-{2**63}"),
    (True, "True"), (0.1, "0.1"), (Decimal("-1.50"), "-1.50"), ("é\x00😀", "é\x00😀"), ("\ud800", "\ud800"),
    (uuid.UUID(int=5), str(uuid.UUID(int=5))), (datetime.date(1, 1, 1), "0001-01-01"),
    (datetime.time(8, 30, 0, 1), "08:30:00.000001"), (MOMENT, "2013-01-31T03:30:00.123456+00:00"),
    (MOMENT.replace(tzinfo=None), "2013-01-31T03:30:00.123456"),
    (MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=-5))), "2013-01-31T03:30:00.123456+00:00"),
    (datetime.datetime.min.replace(tzinfo=datetime.UTC), "0001-01-01T00:00:00+00:00"),
]  # fmt: skip


def test_a_value_is_read_as_it_was_written() -> None:
    found = [read_values(written([value, 7]), DIGEST, KEY) for value, _ in VALUES]

    assert found == [[read, "7"] for _, read in VALUES]


texts = st.text(st.characters(exclude_categories=()), max_size=300)
all_values = st.none() | texts | st.integers(-(2**70), 2**70) | st.uuids()


@given(values=st.lists(all_values, max_size=6))
def test_values_of_any_length_are_read_as_they_were_written(values: list[Any]) -> None:
    cursor = make_cursor(values, DIGEST, KEY)

    assert cursor is None or len(cursor) <= MAX_CURSOR_CHARS
    if cursor is not None:
        assert read_values(cursor, DIGEST, KEY) == [None if value is None else str(value) for value in values]


def test_values_that_are_too_long_have_no_cursor() -> None:
    noise = "".join(chr(0x100 + number * number % 0x3000) for number in range(1_500))

    assert make_cursor([noise], DIGEST, KEY) is None
    assert len(written(["x" * 100_000])) < 300


def test_forging_any_character_of_a_cursor() -> None:
    for values in ([MOMENT, 336_776], ["x" * 500]):  # The second one is compressed.
        cursor = written(values)
        for place, char in enumerate(cursor):
            for other in {"A", "_", ".", "é", "="} - {char}:
                assert is_refused(f"{cursor[:place]}{other}{cursor[place + 1 :]}")


def test_cutting_or_lengthening_a_cursor() -> None:
    cursor = written([MOMENT, 336_776])

    assert all(is_refused(cursor[:length]) for length in range(len(cursor)))
    assert all(is_refused(cursor + more) for more in ("A", "=", "==", "\n", " ", "AAAA", "."))
    assert is_refused("." + cursor)


def test_reading_compressed_values_of_a_cursor_as_plain_ones() -> None:
    cursors = [written([str(number) * 101, number]) for number in range(100)]

    assert all(cursor.startswith(".") and is_refused(cursor[1:]) for cursor in cursors)


def test_spelling_the_last_character_of_a_cursor_otherwise() -> None:
    cursor = written([1])
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

    taken = [char for char in alphabet if not is_refused(cursor[:-1] + char)]

    assert taken == [cursor[-1]]


def test_using_a_cursor_in_another_query_or_for_another_principal() -> None:
    cursor = written([1])

    assert not is_refused(cursor)
    assert is_refused(cursor, digest=query_digest("flights.flight", {"origin": "LGA"}))
    assert is_refused(cursor, key="user:11")
    assert is_refused(written([1], key="user:1:"), key="user:1")


def test_a_cursor_carries_neither_the_query_nor_the_principal() -> None:
    lengths = {len(written([1], key=key)) for key in ("user:1", "user:" + "x" * 200)}

    assert lengths == {len(written([1], digest=query_digest("shop.product")))}


def test_a_cursor_outlives_a_change_of_the_secret_key_as_a_fallback() -> None:
    with override_settings(SECRET_KEY="old"):
        cursor = written([1])

    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["older", "old"]):
        assert read_values(cursor, DIGEST, KEY) == ["1"]
    with override_settings(SECRET_KEY="new"):
        assert is_refused(cursor)
