"""What looks like a key, a token or the hash of a password, and what only resembles one."""

from __future__ import annotations

import hashlib
import random
import string
import time
import uuid

import pytest
from django.contrib.auth.hashers import get_hashers_by_algorithm, make_password

from mcp_django.console.review.secret_texts import find
from mcp_django.exchange.token_format import new_token

CHANCE = random.Random(7)
#: The bytes of these are split, so that no scanner of secrets takes this file for a leak.
SECRET = {
    "access tokens": [
        "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc", "rk_" + "test_4eC39HqLyjWDarjtT1zdp7dc", "gh" + "p_" + "a1B2" * 9,
        "github" + "_pat_" + "a1B2" * 10, "gl" + "pat-" + "a1B2-" * 4, "xox" + "b-1234567890-abcdef",
        "AKIA" + "IOSFODNN7EXAMPLE", "AIza" + "a1B2_" * 7, "sk-" + "proj-" + "a1B2" * 8, "hf_" + "a1B2" * 9,
        new_token(), "key=" + "gh" + "o_" + "a1B2" * 9, " npm_" + "a1B2" * 9 + " ",
    ],
    "JSON web tokens": ["eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"],
    "keys in PEM": ["-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE", "-----BEGIN " + "PGP MESSAGE-----"],
    "hashes of passwords": [
        *(make_password("x", hasher=name) for name in get_hashers_by_algorithm() if name != "argon2"),
        "argon2$argon2id$v=19$m=102400,t=2,p=8$c2FsdA$aGFzaA", "$2b$12$" + "a1B2" * 13 + "x", "$6$salt$hash",
        "bcrypt_sha256$$2b$12$" + "a1B2" * 13 + "x", "pbkdf2_sha256$870000$salt$hash=", "md5$salt$hash",
    ],
    "URLs with a password": [
        "postgres://ann:hunter2@db/shop", "redis://:hunter2@cache:6379/0", "see https://ann:hunter2@example.com/x.",
    ],
    "IBANs": ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "fr1420041010050500013m02606"],
    "random texts, as keys are": [
        "".join(CHANCE.choices(string.ascii_letters + string.digits, k=32)), hashlib.sha256(b"x").hexdigest(),
        hashlib.md5(b"x", usedforsecurity=False).hexdigest().upper(), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", SECRET)
def test_what_looks_like_a_secret(kind: str) -> None:
    found = {text: find([text]) for text in SECRET[kind]}

    assert [text for text, one in found.items() if one is None or one.kinds[0] != kind] == []


PLAIN = [
    "", "Ann", "a note about nothing", "flights-from-new-york-in-january-2013", "SomeVeryLongNameOfAClassOfThings",
    "2013-01-31T08:30:00-05:00", "20130131083000123456", "+49 30 1234567", "ann.brown@example.com", str(uuid.uuid4()),
    uuid.UUID(int=2**120 + 7).hex, uuid.uuid4().hex, "https://example.com/a/path?to=b@c", "http://[::1]:8000/x@y",
    "https://ann@example.com/", "uploads/2013/01/31/portrait-of-ann-brown-2.jpg", "N14228", "UA1545",
    "GB82WEST12345698765433", "sk-bratislava-regional-airport-of-2013",
    "DE00370400440532013000", "skateboard_live_show", "AKIA", "eyJ.", "-----", "$100", "$2,000", "md5", "x" * 64,
    "0" * 40, "1234567890" * 4, "task-force-12-of-district-9-in-2013", "django.contrib.auth.backends.ModelBackend",
    "The quick brown fox jumps over the lazy dog, and nobody is surprised by that in 2013.", "bank:account@home",
]  # fmt: skip


def test_what_only_resembles_a_secret() -> None:
    assert {text: one.kinds for text in PLAIN if (one := find([text] * 3)) is not None} == {}


def test_what_may_be_something_else_is_believed_where_it_is_common() -> None:
    key, iban = SECRET["random texts, as keys are"][0], SECRET["IBANs"][0]

    assert find([key, "a", "b"]) is None
    assert find([iban, *"abcdefghijkl"]) is None
    found = find([key, key, iban, "a", "", " "])
    assert found is not None
    assert (found.kinds, found.alike, found.texts) == (["IBANs", "random texts, as keys are"], 3, 4)


def test_one_token_among_many_texts_is_enough() -> None:
    found = find([*SECRET["access tokens"][:1], *map(str, range(199))])

    assert found is not None and (found.alike, found.texts) == (1, 200)


def test_no_text_is_looked_at_for_long() -> None:
    """Texts of 2,000 characters, in which a pattern may begin anywhere."""
    start = time.thread_time()
    for part in ("a:", "://", "eyJ", "A", "-", "sk-", "xoxb-", "a:/@", "://a:", "a://b:", "$", "md5$", "-----BEGIN "):
        find([part * (2_000 // len(part))] * 200)

    assert time.thread_time() - start < 20
