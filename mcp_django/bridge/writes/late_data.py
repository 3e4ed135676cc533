"""What a browser would send, which is written while the view of the admin makes its forms.

A view that is sent what it would itself have shown needs no page before it. Code of the project that reads the data
before they are whole would see others than in a browser, and code that asks for the method may do another thing for a
page: that ends the pass, and the page is opened first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from mcp_django.core.compat.requests import asking_module, freeze

if TYPE_CHECKING:
    from mcp_django.bridge.writes.form_data import FormData

#: What the views of the admin look for beside the forms. We send none of it.
_OF_VIEWS = frozenset(
    ("_to_field", "_popup", "_source_model", "_saveasnew", "_save", "_continue", "_addanother", "csrfmiddlewaretoken")
)
#: Methods of one name, and those of all names, or that write.
_OF_ONE = ("__getitem__", "__contains__", "getlist")
_OF_ALL = (
    "__iter__", "__len__", "__eq__", "__ne__", "__or__", "__ror__", "__repr__", "__copy__", "__deepcopy__",
    "__reduce_ex__", "keys", "values", "items", "lists", "dict", "copy", "urlencode",
    "__setitem__", "__delitem__", "__ior__", "setlist", "setlistdefault", "setdefault", "appendlist", "update", "pop",
    "popitem", "clear",
)  # fmt: skip


class TooEarly(BaseException):
    """Code of the project reads what is not there yet.

    It is no Exception, since ``except Exception`` of a project must not catch it.
    """


def _guarded(base: type[Any]) -> Any:
    """A subclass whose instances ask their ``mcp_late`` before anybody reads them, or writes to them."""

    def of_one(name: str) -> Callable[..., Any]:
        def call(self: Any, key: Any, *args: Any, **options: Any) -> Any:
            self.mcp_late.check(self, key)
            return getattr(base, name)(self, key, *args, **options)

        return call

    def of_all(self: Any, *args: Any, **options: Any) -> Any:
        raise TooEarly

    def is_there(self: Any) -> bool:
        # A formset asks for it, of which all is written by then.
        if not self.mcp_late.is_begun:
            raise TooEarly
        return dict.__len__(self) > 0

    methods: dict[str, Any] = {"__bool__": is_there, "__hash__": None}
    methods |= {name: of_one(name) for name in _OF_ONE}
    methods |= {name: of_all for name in _OF_ALL if hasattr(base, name)}
    return type(f"Late{base.__name__}", (base,), methods)


class _LatePost(_guarded(QueryDict)):  # type: ignore[misc]
    def copy(self) -> Any:
        """What Django gives to a formset."""
        return self.mcp_late.copied()


_LateFiles = _guarded(MultiValueDict)


@lru_cache(maxsize=16)
def _late_request(cls: Any) -> Any:
    """A subclass of requests: code of the project that asks for the method could be told the one of a page."""

    def method(self: Any) -> Any:
        if not asking_module(1).startswith(("django.", "mcp_django.")):
            raise TooEarly
        return vars(self)["method"]

    return type(cls.__name__, (cls,), {"method": property(method), "__module__": cls.__module__})


class Late:
    """The values and the files of one request: first of no form, then of some, at last of all."""

    def __init__(self) -> None:
        self.post, self.files = self._new_post(), _LateFiles()
        self.files.mcp_late = self
        self._request: Any = None
        self._copies: list[Any] = []
        #: How the names of the formsets that are written begin; None before the form of the page is written.
        self._begins: tuple[str, ...] | None = None

    def give_to(self, request: Any) -> None:
        """Let the request have the values and the files."""
        request.POST, request.FILES = self.post, self.files
        self._request, request.__class__ = request, _late_request(cast("Hashable", type(request)))

    @property
    def is_begun(self) -> bool:
        """Whether the form of the page is written."""
        return self._begins is not None

    def is_part(self, data: Any) -> bool:
        """Whether these are the values, or a copy of them, that are not whole yet."""
        return getattr(data, "mcp_late", None) is self

    def write(self, data: FormData, prefix: str = "") -> None:
        """Add the form of the page, or the formset of a prefix."""
        for name, values in data.values.items():
            for one in (self.post, *self._copies):
                MultiValueDict.setlist(one, name, list(values))
        for name, files in data.files.lists():
            MultiValueDict.setlist(self.files, name, files)
        self._begins = (*(self._begins or ()), *([f"{prefix}-"] if prefix else ()))

    def end(self) -> None:
        """All is written: from now on they are what Django makes of a request."""
        freeze(self.post)
        self._request.__class__ = type(self._request).__base__
        for one in (self.post, *self._copies):
            del one.mcp_late
            one.__class__ = QueryDict
        del self.files.mcp_late
        self.files.__class__ = MultiValueDict

    def check(self, data: Any, name: Any) -> None:
        """Raises TooEarly where the name may still be written."""
        if name not in _OF_VIEWS and (self._begins is None or self._may_come(data, str(name), self._begins)):
            raise TooEarly

    def _may_come(self, data: Any, name: str, begins: tuple[str, ...]) -> bool:
        """Only rows of formsets have names with a hyphen."""
        return "-" in name and not dict.__contains__(data, name) and not name.startswith(begins)

    def copied(self) -> Any:
        """The values for a formset, to which is added what is written later. Raises TooEarly."""
        if self._begins is None:
            raise TooEarly
        made = self._new_post()
        for name, values in MultiValueDict.lists(self.post):
            MultiValueDict.setlist(made, name, list(values))
        self._copies.append(made)
        return made

    def _new_post(self) -> Any:
        made = _LatePost(mutable=True)
        made.mcp_late = self
        return made
