"""A text that reports of errors cannot show."""

from __future__ import annotations

from typing import Any, Self

from django.utils.html import escape

_SHOWN = "***"


class Secret(str):
    """A token, a code, or a text that holds one. ``repr``, ``str``, ``format`` and a pickle of it give ``***``.

    An exception keeps the locals of its frames, and handlers of logs mail them or send them to collectors. A secret is
    compared, encoded, cut and looked up as any text; what is cut out of it is an ordinary text again. ``reveal`` gives
    the text itself. A template of Django shows it, escaped: a page that has a secret is there to show it.
    """

    __slots__ = ()

    def __new__(cls, text: str = "") -> Self:
        # ``str`` would ask ``__str__`` of a secret.
        return super().__new__(cls, text.reveal() if isinstance(text, Secret) else text)

    def reveal(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return _SHOWN

    def __str__(self) -> str:
        return _SHOWN

    def __format__(self, spec: str) -> str:
        return format(_SHOWN, spec)

    def __html__(self) -> str:
        return escape(self.reveal())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Secret, (_SHOWN,)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: Any) -> Secret:
        return self
