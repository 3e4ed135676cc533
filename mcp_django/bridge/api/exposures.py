"""What a project exposes of its API, and how: see ``mcp_django.expose``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from django.core.exceptions import ImproperlyConfigured

from mcp_django.bridge.declared.consent import CONSENTS, Consent, is_consent

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest

#: Headers of a request to the project, from the request of a client.
Credentials = Callable[["MCPRequest"], Mapping[str, str]]

#: In ``include``: everything that the defaults do not leave out.
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class FormPages:
    """A target of ``expose_form``: pages with a form, by the names of their URLs."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """One call of ``expose``. Raises ImproperlyConfigured for an option that cannot be meant."""

    #: A router, a prefix of paths, a view class, a view function, a NinjaAPI, or FormPages.
    target: Any
    include: Collection[str] = (EVERYTHING,)
    exclude: Collection[str] = ()
    tools: Collection[str] = ()
    credentials: Credentials | None = None
    headers: Collection[str] = ()
    version: str = ""
    show_secrets: Collection[str] = ()
    params: Mapping[str, Mapping[str, str]] | None = None
    authentication: Literal["", "replace"] = ""
    preview: Mapping[str, str] | None = None
    consent: Mapping[str, Consent] | None = None

    def __post_init__(self) -> None:
        for name in ("include", "exclude", "tools", "headers", "show_secrets"):
            if isinstance(getattr(self, name), str):
                raise ImproperlyConfigured(f"{name}= of expose() must be a list, and not {getattr(self, name)!r}.")
        if self.authentication not in ("", "replace"):
            raise ImproperlyConfigured('authentication= of expose() can only be "replace".')
        if self.credentials is not None and not callable(self.credentials):
            raise ImproperlyConfigured("credentials= of expose() must be a function of the request.")
        for name, what in (self.preview or {}).items():
            if what != "rollback":
                raise ImproperlyConfigured(f'preview= of expose() for {name} can only be "rollback".')
        for name, consent in (self.consent or {}).items():
            if not is_consent(consent):
                raise ImproperlyConfigured(f"consent= of expose() for {name} must be {CONSENTS}.")

    def named(self) -> Collection[str]:
        """The names of operations, or patterns of them, that its options hold."""
        found = [*self.include, *self.exclude, *self.tools]
        for one in (self.params, self.preview, self.consent):
            found += one or ()
        return [name for name in dict.fromkeys(found) if name != EVERYTHING]


#: The options of ``expose``.
OPTIONS = tuple(one.name for one in fields(Exposure) if one.name != "target")
