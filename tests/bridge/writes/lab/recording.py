"""Records what passes through the views of a ModelAdmin: the hooks that each calls, and the signals that it sends.

Hooks are counted by watching which functions run, and not by wrapping them: classes of the lab stay as they are, and
whatever asks where a hook was written finds the class that wrote it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import django.contrib.admin
from django.contrib.admin.options import BaseModelAdmin
from django.db.models import signals
from django.forms import BaseForm
from django.forms.formsets import BaseFormSet

_ADMIN = str(Path(django.contrib.admin.__file__).parent)
_HERE = str(Path(__file__).parent)
#: Where a pass begins. The action of the admin is what its page of all rows calls to delete some.
_VIEWS = ("add_view", "change_view", "delete_view", "delete_selected")
_SIGNALS = ("pre_save", "post_save", "pre_delete", "post_delete", "m2m_changed")


@dataclass(eq=False)
class View:
    """One pass through a view: a GET that opens a page, or a POST that sends it."""

    method: str
    #: How often each function ran, as ``BookAdmin.save_model``.
    calls: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)

    @property
    def is_saved(self) -> bool:
        return any(name.partition(".")[2].startswith(("log_", "response_")) for name in self.calls)


class Recording:
    """A context in which the passes through views are recorded. ``folders`` hold further code to watch."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders = (_ADMIN, _HERE, *folders)
        self._known: dict[CodeType, bool] = {}
        self._view_frame: FrameType | None = None
        self.views: list[View] = []
        #: Signals that were sent outside of a view.
        self.outside: Counter[str] = Counter()

    def __enter__(self) -> Recording:
        for name in _SIGNALS:
            getattr(signals, name).connect(self._receive)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        for name in _SIGNALS:
            getattr(signals, name).disconnect(self._receive)

    @property
    def opening(self) -> View:
        """The last time that the page was opened before it was sent."""
        before = self.views[: self.views.index(self.writing)]
        return next((view for view in reversed(before) if view.method == "GET"), View("GET"))

    @property
    def writing(self) -> View:
        found = [view for view in self.views if view.method == "POST" and view.is_saved]
        assert len(found) == 1, f"{len(found)} views have written"
        return found[0]

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            known = self._known.get(code)
            if known is None:
                known = self._known[code] = self._is_watched(code)
            if known:
                self._called(frame, code)
        elif event == "return" and frame is self._view_frame:
            self._view_frame = None

    def _is_watched(self, code: CodeType) -> bool:
        return (
            code.co_filename.startswith(self._folders)
            and code.co_argcount > 0
            and (not code.co_name.startswith(("_", "<")) or code.co_name == "__init__")
        )

    def _called(self, frame: FrameType, code: CodeType) -> None:
        owner = frame.f_locals.get(code.co_varnames[0])
        if not isinstance(owner, BaseModelAdmin | BaseForm | BaseFormSet):
            return
        if self._view_frame is None:
            if code.co_name not in _VIEWS or not isinstance(owner, BaseModelAdmin):
                return
            self._view_frame = frame
            self.views.append(View(vars(frame.f_locals["request"])["method"]))
        name = code.co_qualname.rpartition("<locals>.")[2]
        self.views[-1].calls[name] += 1

    def _receive(self, sender: Any, signal: Any, **details: Any) -> None:
        label = sender._meta.label_lower
        if label.startswith(("sessions.", "mcp_django.")):
            return
        name = next(one for one in _SIGNALS if getattr(signals, one) is signal)
        how = details.get("action") or {True: "created", False: "changed", None: ""}[details.get("created")]
        counted = self.outside if self._view_frame is None else self.views[-1].signals
        counted[" ".join(filter(None, (name, label, how)))] += 1
