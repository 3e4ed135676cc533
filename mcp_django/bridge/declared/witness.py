"""Asks hooks of the project whether they decide by an object: with one that notes what is read of it.

A hook is called as the page of an object calls it, with a witness in the place of the object, and on copies of its
owner and of the request. Where it looks at nothing that may tell one object from another, its answer for this request
holds for every object. It may look past the witness, as ``type(obj) is Car`` does: so it is asked once more with a
plain object, and must answer the same.

The verdict goes with the answer. It holds for this request alone: for another user, or while a list is not empty, the
hook may look.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import currentframe
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import models
from django.utils.functional import cached_property

from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from django.http import HttpRequest

T = TypeVar("T")

#: Attributes of a request that may name the object which is asked for.
_NAMING = frozenset(
    """GET POST FILES COOKIES META headers session body read readline readlines path path_info get_full_path
    get_full_path_info build_absolute_uri get_signed_cookie resolver_match mcp""".split()  # noqa: SIM905 - a list of so many strings is a page long
)
#: Methods of a request that read such attributes, and tell nothing of the object.
_OF_HOST = frozenset({"get_host", "get_port", "scheme", "is_secure", "site"})
#: Methods of users that take an object, which they give to every backend.
_ASKING_BACKENDS = ("has_perm", "get_all_permissions", "get_group_permissions", "get_user_permissions")

#: Special methods that every object has, and that look at nothing: Python itself calls them on its type.
_BLIND = frozenset(
    """__class__ __new__ __init__ __init_subclass__ __subclasshook__ __getattribute__ __setattr__ __delattr__ __dict__
    __weakref__ __module__ __doc__ __qualname__ __slots__ __annotations__ __class_getitem__ __del__""".split()  # noqa: SIM905
)


class Looked(BaseException):
    """A hook looks at what may tell one object from another: it is asked no further.

    It is no Exception, since ``except Exception`` of a project must not catch it.
    """


@dataclass(slots=True)
class _Notes:
    """What one call has looked at: kept, in case the project catches everything."""

    looked: bool = False
    #: The names of the functions in which it looked.
    functions: frozenset[str] = frozenset()

    def look(self) -> NoReturn:
        self.looked = True
        self.functions = frozenset(frame.f_code.co_qualname for frame, _ in walk_stack(currentframe()))
        raise Looked


class Depends(Exception):
    """What the hooks answer depends on the object, or cannot be said of every one."""

    def __init__(self, functions: frozenset[str] = frozenset()) -> None:
        super().__init__()
        #: The names of the functions that were running when one of them looked, if that is why.
        self.functions = functions


def of_every_object(
    owner: Any,
    request: HttpRequest,
    model: type[models.Model],
    ask: Callable[[Any, Any, Any], T],
    *,
    twice: bool = True,
) -> T:
    """What ``ask(owner, request, object)`` answers whichever the object is. Raises Depends.

    ``ask`` consumes what the hooks return. What it returns can be compared. ``twice``: whether to ask once more with a
    plain object; a hook that is given none cannot look past the witness.
    """
    notes = _Notes()
    watched, asked, witness = _watched_owner(owner, notes), _watched_request(request, notes), _witness(model, notes)
    if watched is None or asked is None or witness is None:
        raise Depends

    def ask_both() -> Sequence[T]:
        answer = ask(watched, asked, witness)
        is_same = notes.looked or not twice or ask(watched, asked, plain_object(model)) == answer
        return [answer] if is_same and not notes.looked else []

    answers: Sequence[T] = ()
    with suppress(Looked):
        answers = call_hook(ask_both, answers, f"A hook of {type(owner).__qualname__}")
    if not answers:
        raise Depends(notes.functions)
    return answers[0]


# Whether all objects are of one class, which then tells nothing of any of them.


def makes_rows(model: type[models.Model]) -> bool:
    """Whether Django itself makes the instances of a model."""
    made_by: Any = model.from_db
    return made_by.__func__ is vars(models.Model)["from_db"].__func__


# The object.


def plain_object(model: type[models.Model]) -> models.Model:
    """An object without values, as if it were stored.

    A default that is a function is not called: it may ask the database.
    """
    made = model(*_plain_values(model))
    made._state.adding = False
    return made


@lru_cache(maxsize=1_000)
def _plain_values(model: Any) -> Sequence[Any]:
    return [_plain_value(field) for field in model._meta.concrete_fields]


def _plain_value(field: models.Field[Any, Any]) -> Any:
    if isinstance(field, models.GeneratedField):
        return models.DEFERRED
    return None if field.has_default() and callable(field.default) else field.get_default()


class _State:
    """``_state`` of a witness, as that of a row that is stored."""

    adding = False

    def __init__(self, notes: _Notes) -> None:
        self._notes = notes

    def __getattr__(self, name: str) -> NoReturn:
        self._notes.look()


def _witness(model: type[models.Model], notes: _Notes) -> Any:
    cls = _class_of_witness(model)
    if cls is None:
        return None
    witness = object.__new__(cls)
    object.__setattr__(witness, "_mcp_notes", notes)
    return witness


@lru_cache(maxsize=1_000)
def _class_of_witness(model: Any) -> Any:
    def look(witness: Any, *args: Any, **kwargs: Any) -> NoReturn:
        notes: _Notes = object.__getattribute__(witness, "_mcp_notes")
        notes.look()

    def read(witness: Any, name: str) -> Any:
        notes: _Notes = object.__getattribute__(witness, "_mcp_notes")
        if name == "_meta":
            return model._meta
        if name == "_state":
            return _State(notes)
        return model if name == "__class__" else notes.look()

    special = {name for cls in model.__mro__ for name, value in vars(cls).items()
               if name.startswith("__") and name.endswith("__") and callable(value)} - _BLIND  # fmt: skip
    changing = {"__setattr__": look, "__delattr__": look}
    return _heir_of(model, {**dict.fromkeys(special, look), **changing, "__getattribute__": read})


# Its owner, a ModelAdmin or an inline, and the request.

#: What was in the owners when they were registered.
_registered: WeakKeyDictionary[Any, Mapping[str, Any]] = WeakKeyDictionary()


def remember(owner: Any) -> Mapping[str, Any]:
    """Note what an owner has in it, now that it is registered. What comes later may be of one object."""
    known = _registered.get(owner)
    return _registered.setdefault(owner, dict(vars(owner))) if known is None else known


@dataclass(slots=True)
class _Watch:
    """What is noted of an object: each attribute that is set or is not there, and these."""

    notes: _Notes
    hidden: Container[str] = ()
    #: Names that are read from the original, which is not watched.
    unwatched: Container[str] = ()
    original: Any = None


def _watched_owner(owner: Any, notes: _Notes) -> Any:
    known, own = remember(owner), vars(owner)
    kept = {name: value for name, value in own.items() if known.get(name, notes) is value}
    if len(kept) == len(own):
        return _watched(type(owner), kept, _Watch(notes))
    # What a property keeps is computed once more, by what is watched.
    hidden = {name for name in own.keys() - kept if not isinstance(getattr(type(owner), name, None), cached_property)}
    return _watched(type(owner), kept, _Watch(notes, hidden))


def _watched_request(request: HttpRequest, notes: _Notes) -> Any:
    own = dict(vars(request))
    if not _has_djangos_backends(tuple(settings.AUTHENTICATION_BACKENDS)):
        own["user"] = _watched_user(request.user, notes)
    return _watched(type(request), own, _Watch(notes, _NAMING, _OF_HOST, request))


def _watched(cls: Any, own: Mapping[str, Any], watch: _Watch) -> Any:
    heir = _class_of_watched(cls)
    if heir is None:
        return None
    watched = object.__new__(heir)
    vars(watched).update(own, _mcp_watch=watch)
    return watched


@lru_cache(maxsize=1_000)
def _class_of_watched(cls: Any) -> Any:
    def read(watched: Any, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(watched, name)
        watch: _Watch = object.__getattribute__(watched, "_mcp_watch")
        if name in watch.unwatched:
            return getattr(watch.original, name)
        if name in watch.hidden:
            watch.notes.look()
        try:
            return cls.__getattribute__(watched, name)
        except AttributeError:
            return watch.notes.look()

    def change(watched: Any, *args: Any) -> NoReturn:
        watch: _Watch = object.__getattribute__(watched, "_mcp_watch")
        watch.notes.look()

    return _heir_of(cls, {"__getattribute__": read, "__setattr__": change, "__delattr__": change})


class _Blank:
    """What a class is made of before it gets its bases."""


def _heir_of(cls: Any, body: Mapping[str, Any]) -> Any:
    """A subclass of which its metaclass, ``__init_subclass__`` and the app registry do not hear; None if impossible."""
    named = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    heir: Any = type.__new__(type(cls), cls.__name__, (_Blank,), {**named, **body})
    try:
        heir.__bases__ = (cls,)
    except TypeError:
        return None
    return heir


# Permissions of an object.


@lru_cache(maxsize=10)
def _has_djangos_backends(paths: tuple[str, ...]) -> bool:
    """Whether none but Django's own backends is asked for permissions: they look at no object."""
    return all(path.startswith("django.contrib.auth.backends.") for path in paths)


def _watched_user(user: Any, notes: _Notes) -> Any:
    """The user, who notes if a permission of an object is asked for: a backend may look past the witness."""
    watched = copy.copy(user)
    for name in _ASKING_BACKENDS:
        if (asked := getattr(watched, name, None)) is not None:
            setattr(watched, name, _noting_object(asked, notes, 1 if name == "has_perm" else 0))
    return watched


def _noting_object(asked: Callable[..., Any], notes: _Notes, place: int) -> Callable[..., Any]:
    @wraps(asked)
    def ask(*args: Any, **kwargs: Any) -> Any:
        if (args[place] if len(args) > place else kwargs.get("obj")) is not None:
            notes.look()
        return asked(*args, **kwargs)

    return ask
