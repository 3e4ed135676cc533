"""What keys, tokens and hashes of passwords look like: plain rules, each with words for people.

They find what is stored under a name that says nothing. They prove nothing about a text that they do not know.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from mcp_django.exchange.token_format import is_well_formed


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret."""

    #: As it is told, in the plural.
    name: str
    is_met: Callable[[str], object]
    #: The share of a column's texts that must meet it: what may be something else is believed where it is common.
    share: float = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What was found among the texts of a column."""

    kinds: list[str]
    #: How many of the texts are of one of these kinds, and how many there are.
    alike: int
    texts: int


def find(texts: Iterable[str]) -> Found | None:
    """What the texts of a column look like, if they look like secrets. Empty texts do not count."""
    stripped = [text for text in map(str.strip, texts) if text]
    met = {rule.name: {place for place, text in enumerate(stripped) if rule.is_met(text)} for rule in RULES}
    kinds = [rule.name for rule in RULES if met[rule.name] and len(met[rule.name]) >= rule.share * len(stripped)]
    alike = set().union(*(met[kind] for kind in kinds))
    return Found(kinds, len(alike), len(stripped)) if kinds else None


#: Beginnings of tokens that their makers chose so that they are recognised.
_TOKEN = re.compile(
    r"""\b(?:
      (?:sk|rk)_(?:live|test)_[0-9A-Za-z]{10,} | whsec_[0-9A-Za-z+/=]{16,}      # Stripe
    | gh[pousr]_[0-9A-Za-z]{30,} | github_pat_[0-9A-Za-z_]{30,}                 # GitHub
    | gl(?:pat|dt|rt|cbt)-[0-9A-Za-z_-]{20,}                                     # GitLab
    | xox[abeoprs]-[0-9A-Za-z-]{10,}                                             # Slack
    | (?:AKIA|ASIA)[0-9A-Z]{16}                                                  # Amazon
    | AIza[0-9A-Za-z_-]{35} | ya29\.[0-9A-Za-z_-]{20,}                           # Google
    | SG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}                                 # SendGrid
    | sk-(?=[0-9a-z_-]*[A-Z])(?=[A-Za-z_-]*[0-9])[0-9A-Za-z_-]{20,} | hf_[0-9A-Za-z]{30,}  # model providers
    | npm_[0-9A-Za-z]{30,} | pypi-[0-9A-Za-z_-]{30,} | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}
    | dop_v1_[0-9a-f]{32,}
    )""",
    re.VERBOSE,
)
_JWT = re.compile(r"\beyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----")
#: As Django, libraries and ``crypt`` write them.
_HASH = re.compile(
    r"(?:(?:pbkdf2|bcrypt|scrypt|argon2|sha1|md5)(?:_sha\d+)?\$.+"
    r"|\$(?:1|5|6|2[abxy]?|y|argon2id?|argon2d|pbkdf2(?:-sha\d+)?|scrypt)\$.+)"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@?#]*:[^\s/@?#]+@[^\s/]", re.IGNORECASE)
_IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}")
_RANDOM = re.compile(r"[0-9A-Za-z_+/=-]{20,512}")
_UUID = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{12}[1-8][0-9a-f]{3}[89ab][0-9a-f]{15}", re.IGNORECASE
)
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
#: Bits of entropy for each character, by which a text is random.
_BITS_OF_HEX, _BITS = 2.9, 3.4


def _is_iban(text: str) -> bool:
    """Whether it has the form of an IBAN, and its check digits (ISO 13616, ISO 7064 MOD 97-10)."""
    compact = text.replace(" ", "").upper()
    if not _IBAN.fullmatch(compact):
        return False
    return int("".join(str(int(sign, 36)) for sign in compact[4:] + compact[:4])) % 97 == 1


def _is_random(text: str) -> bool:
    """Whether letters and digits follow each other as chance has it: not in words, slugs, numbers and UUIDs."""
    if not _RANDOM.fullmatch(text) or _UUID.fullmatch(text):
        return False
    pairs = ((first, second) for first, second in pairwise(text) if first.isalnum() and second.isalnum())
    switches = sum(first.isdigit() != second.isdigit() for first, second in pairs)
    if switches < len(text) / 7:
        return False
    return _entropy(text) >= (_BITS_OF_HEX if _HEX.fullmatch(text) else _BITS)


def _entropy(text: str) -> float:
    """Shannon's, in bits for each character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


#: In the order in which they are told.
RULES = (
    Rule("access tokens", lambda text: _TOKEN.search(text) or is_well_formed(text)),
    Rule("JSON web tokens", _JWT.search),
    Rule("keys in PEM", _PEM.search),
    Rule("hashes of passwords", _HASH.fullmatch),
    Rule("URLs with a password", _URL.search),
    # One of 97 texts of this form has the right check digits by chance.
    Rule("IBANs", _is_iban, share=0.1),
    Rule("random texts, as keys are", _is_random, share=0.5),
)
