"""ObjectAction: something that people do on the page of one row, as a project or an adapter of a package says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model

from mcp_django.bridge.declared.consent import CONSENTS, is_consent

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.bridge.declared.consent import Consent


def is_always(request: HttpRequest, obj: Model) -> bool:
    return True


@dataclass(frozen=True)
class ObjectAction:
    """Something that a person does on the page of one row, and an agent by a tool: ``ObjectAction(name="publish")``.

    With a ``button``, the form at ``path`` is sent as it stands, by the button of this name; for a function, it is the
    name for a row. Without one, ``path`` is asked with ``method``. It must lead to a view of a package or of the
    project within the AdminSite. Where it is not given, it is the form of the row.

    ``is_available`` says for which rows the user is offered the action, beside the right to change the row, or one of
    ``permissions`` as of ``@admin.action``. The other options are those of ``mcp_django.action``.

    Raises ImproperlyConfigured.
    """

    name: str
    title: Any = ""
    path: Callable[[Any], str | None] | None = None
    method: Literal["GET", "POST"] = "GET"
    is_available: Callable[[Any, Any], bool] = is_always
    button: str | Callable[[Any], str] = ""
    permissions: Sequence[str] | None = None
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    changes: Sequence[str] = ()
    consent: Consent = "preview"
    shows_page: bool | int = False

    def __post_init__(self) -> None:
        if self.path is None and not self.button:
            raise ImproperlyConfigured(f"The object action {self.name!r} needs a path= or a button=.")
        if self.method not in ("GET", "POST"):
            raise ImproperlyConfigured(f"method= of an object action must be GET or POST, and not {self.method!r}.")
        if not is_consent(self.consent):
            raise ImproperlyConfigured(f"consent= of an object action must be {CONSENTS}, and not {self.consent!r}.")
        if self.read_only and self.consent != "preview":
            raise ImproperlyConfigured("An object action that only reads needs no consent=.")
