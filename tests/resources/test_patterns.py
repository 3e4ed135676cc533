"""Regular expressions: only where they are on, only what every database reads alike, and nothing that runs away."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, transaction
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_django.resources.patterns import read_pattern
from tests.shop.models import Tag
from tests.support.asking import DirectPeer, described, errors_of, keys

pytestmark = pytest.mark.every_database

by_database = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has none")
sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="of SQLite")

NAMES = ["N14228", "N24211", "a.b", "a|b", "jfk ewr", "x@example.com", "ÄÖ"]


@pytest.fixture
def root(db: None) -> DirectPeer:
    Tag.objects.bulk_create(Tag(name=name) for name in NAMES)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def on() -> Iterator[None]:
    with override_settings(MCP={"REGEX_LOOKUPS": True}):
        yield


FOUND = [
    (r"^N\d{5}$", {"N14228", "N24211"}),
    (r"^N(1|2)4", {"N14228", "N24211"}),
    (r"^n", set()),
    (r"a\.b", {"a.b"}),
    (r"a\|b", {"a|b"}),
    (r"^[a-z]{3}\s[a-z]{3}$", {"jfk ewr"}),
    (r"^\w+@\w+\.(?:com|org)$", {"x@example.com"}),
    (r"^[^\w ]?a[.|]", {"a.b", "a|b"}),
    ("^ÄÖ$", {"ÄÖ"}),
]


@by_database
@pytest.mark.parametrize(("pattern", "found"), FOUND, ids=[pattern for pattern, _ in FOUND])
def test_a_pattern_finds_the_same_in_every_database(root: DirectPeer, on: None, pattern: str, found: set[str]) -> None:
    assert set(keys(root, "shop.tag", filter={"name__regex": pattern})) == found


@by_database
def test_iregex_takes_no_notice_of_case(root: DirectPeer, on: None) -> None:
    assert keys(root, "shop.tag", filter={"name__iregex": "^n1"}) == ["N14228"]


def test_they_are_off_until_they_are_switched_on(root: DirectPeer) -> None:
    [error] = errors_of(root.call("find_records", model="shop.tag", filter={"name__regex": "^N"}))

    assert error["message"].startswith("no lookup of name 'regex'.")
    assert "regex" not in str(described(root, "shop.tag"))


@sqlite
def test_sqlite_has_none_though_they_are_on(root: DirectPeer, on: None) -> None:
    """There Python would match, which no limit on the statement stops: this pattern would take it years."""
    Tag.objects.create(name="a" * 40)

    [error] = errors_of(root.call("find_records", model="shop.tag", filter={"name__regex": "(a+)+$x"}))

    assert error["message"].startswith("no lookup of name 'regex'.")
    assert "regex" not in str(described(root, "shop.tag"))


@by_database
def test_a_catastrophic_pattern_is_over_soon(root: DirectPeer, on: None) -> None:
    Tag.objects.create(name="a" * 45)

    began = time.monotonic()
    root.call("find_records", model="shop.tag", filter={"name__regex": "^(a+)+b$"})

    assert time.monotonic() - began < 30


REFUSED = [
    "", "x" * 201, "(", ")", "[", "[]", "[^]", "a{", "a}", "a]", "*a", "^*", "a**", "a*+", "a++", "a{,3}", "a{3,1}",
    "a{256}", "a{1,256}", "(a{200}){200}", "(?i)a", "(?=a)", "(?!a)", "(?<=a)b", "(?P<n>a)", "(a)\\1", "\\bx", "\\x41",
    "\\", "a\\", "[[:alpha:]]", "[a-c-e]", "[z-a]", "[\\b]", "***:x", "[]a]", "[a-\\d]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_the_databases_read_otherwise_or_not_at_all_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        read_pattern(pattern)


@by_database
def test_a_refusal_says_where_and_what_there_is(root: DirectPeer, on: None) -> None:
    [error] = errors_of(root.call("find_records", model="shop.tag", filter={"name__regex": "ab(?i)cd"}))

    assert error["message"] == (
        "cannot be read from '(?i)cd' on. There are characters, classes, groups (..) and (?:..), "
        "|, ., ^, $, \\d, \\w, \\s and counts; put a backslash before any other punctuation."
    )


@settings(max_examples=300)
@given(st.text(alphabet="ab1. -^$|()[]{}*+?,\\dws:", max_size=12))
def test_no_pattern_that_is_taken_is_an_error_of_the_database(db: None, text: str) -> None:
    try:
        pattern = read_pattern(text)
    except ValidationError:
        return
    re.compile(pattern)
    if connection.vendor != "sqlite":
        try:
            with transaction.atomic():
                list(Tag.objects.filter(name__regex=pattern)[:1])
        except DatabaseError as error:
            raise AssertionError(pattern) from error
