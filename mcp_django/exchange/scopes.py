"""The scopes of a credential. A scope restricts what the credential's user may do, and never extends it.

There is one grammar, for tokens, settings and the credentials of other packages: ``read``, ``actions``, ``write``,
``model:app.model:read``, ``model:app.model:write``, ``api:RESOURCE:read``, ``api:RESOURCE:write``, ``tool:NAME``, and
the names of SCOPE_GROUPS, each of which stands for several of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from django.apps import apps
from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf, kept_with_settings

READ = "read"
ACTIONS = "actions"
WRITE = "write"

#: Scope → what it allows an agent to do, as the admin shows it.
SCOPES: Mapping[str, Promise] = {
    READ: _("Read what the user may view"),
    ACTIONS: _("Run tools and admin actions that may change data"),
    WRITE: _("Create, change and delete rows as the user may in the admin"),
}
#: The form of each scope that allows a single thing → what it allows.
SINGLE_SCOPES: dict[str, str] = {
    "model:app.model:read": "Read the rows of this model",
    "model:app.model:write": "Create, change and delete rows of this model",
    "api:RESOURCE:read": "Read this resource of the API",
    "api:RESOURCE:write": "Call the operations of this resource that change data",
    "tool:NAME": "Call this tool",
}
#: All forms of a scope, for errors and help texts.
GRAMMAR = ", ".join([*SCOPES, *SINGLE_SCOPES])

#: The scopes of what everybody gets who may read, or write, at least one model or resource of the API. No credential
#: holds them.
ANY_MODEL = "model:*:read"
ANY_WRITABLE = "model:*:write"
ANY_READABLE_API = "api:*:read"
ANY_WRITABLE_API = "api:*:write"
#: That of whoever may read or write at least one resource of the API.
ANY_API = "api:*"
#: Each of these → the scope to ask for.
OF_ANY: Mapping[str, str] = {
    ANY_MODEL: READ, ANY_WRITABLE: WRITE, ANY_READABLE_API: READ, ANY_WRITABLE_API: WRITE, ANY_API: READ,
}  # fmt: skip

#: Scopes are sent in headers and shown to people, so their names are ASCII. Other models have no scope of their own.
_MODEL = re.compile(r"model:[A-Za-z0-9_]+\.[A-Za-z0-9_]+:(?:read|write)")
_API = re.compile(r"api:[A-Za-z0-9_.-]{1,100}:(?:read|write)")
_TOOL = re.compile(r"tool:[A-Za-z0-9_-]{1,64}")
#: Those of which ``read`` or ``write`` holds each.
_OF_KIND = {"model": _MODEL, "api": _API}
_GROUP = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def of_model(label: str, right: str = READ) -> str:
    """The scope that reads, or writes, the model ``app_label.model_name`` alone."""
    return f"model:{label}:{right}"


def of_api(resource: str, right: str = READ) -> str:
    """The scope that reads, or writes, this resource of the API alone."""
    return f"api:{resource}:{right}"


def is_of_api(scope: str) -> bool:
    """Whether the scope is for the project's API, or for a part of it."""
    return scope.startswith("api:")


def resource_of(scope: str) -> str:
    """The resource of the API for which the scope is; empty for another scope."""
    return scope.removeprefix("api:").rpartition(":")[0] if _API.fullmatch(scope) else ""


def is_of_some_model(scope: str) -> bool:
    """Whether the scope is for a model that exists."""
    label = scope.removeprefix("model:").rpartition(":")[0]
    return any(label == model._meta.label_lower for model in apps.get_models())


def of_tool(name: str) -> str:
    """The scope that calls the tool alone."""
    return f"tool:{name}"


def tools_in(held: Set[str]) -> list[str]:
    """The names of the tools for which a credential has a scope ``tool:NAME``."""
    return sorted(scope.removeprefix("tool:") for scope in held if scope.startswith("tool:"))


@kept_with_settings
def groups() -> Mapping[str, frozenset[str]]:
    """The groups of SCOPE_GROUPS that can be used, with the scopes of each. A check names the others."""
    declared = get_conf().SCOPE_GROUPS
    wrong = {name for name, _ in problems_of_groups(declared)}
    return {name: _single(map(_normal, members)) for name, members in declared.items() if name not in wrong}


def problems_of_groups(declared: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """What is wrong with groups of scopes: the name of each, and a sentence."""
    for name, members in declared.items():
        if not _GROUP.fullmatch(name) or name in SCOPES:
            yield name, f"{name!r} cannot be the name of a group: write small letters, digits, - and _."
        elif isinstance(members, str) or not members:
            yield name, f"{name!r} must be a list of scopes."
        elif unknown := sorted(set(map(_normal, members)) - _single(map(_normal, members))):
            yield name, f"{name!r} names {unknown[0]!r}. The scopes are {GRAMMAR}."


def expand(names: Iterable[str]) -> frozenset[str]:
    """The scopes, with the scopes of each group in the place of its name."""
    declared = groups()
    return frozenset(names) if not declared else frozenset().union(*(declared.get(name, {name}) for name in names))


def grant(held: Set[str], scope: str) -> bool:
    """Whether the scopes that a credential holds grant ``scope``.

    ``read`` holds every ``model:…:read`` and ``api:…:read``, and ``write`` every ``…:write``; neither grants what the
    other does.
    """
    if scope in held:
        return True
    single = _OF_KIND.get(scope.partition(":")[0])
    if single is None:
        return False
    if scope == ANY_API:
        return READ in held or WRITE in held or any(map(single.fullmatch, held))
    right = broader(scope)
    if right in held:
        return True
    return scope in OF_ANY and any(single.fullmatch(one) and broader(one) == right for one in held)


def broader(scope: str) -> str:
    """``read`` or ``write``: the scope that holds one for a model, or for a resource of the API."""
    return scope.rpartition(":")[2]


def common(some: Set[str], others: Set[str]) -> frozenset[str]:
    """The scopes that both sides grant."""
    return frozenset(one for one in some | others if grant(some, one) and grant(others, one))


def least(held: Set[str]) -> frozenset[str]:
    """The scopes without those that others of them grant."""
    return frozenset(one for one in held if not grant(held - {one}, one))


def parse(names: Iterable[str]) -> list[str]:
    """The scopes in their fixed order, single ones last. Raises ValueError that names an unknown one."""
    wanted = {_normal(name) for name in names if name.strip()}
    unknown = sorted(wanted - _known(wanted))
    if unknown:
        text = _("unknown scope {scope}; the scopes are {scopes}")
        raise ValueError(format_lazy(text, scope=repr(unknown[0]), scopes=GRAMMAR))
    return [*(name for name in SCOPES if name in wanted), *sorted(wanted - SCOPES.keys())]


def granted_by(credential: Any, default: Iterable[str]) -> frozenset[str]:
    """The scopes of a credential: its list ``scopes``, or its string ``scope`` as in OAuth libraries.

    Scopes that are not ours, such as ``openid``, grant nothing here.
    """
    scopes = getattr(credential, "scopes", None)
    if scopes is None:
        scopes = getattr(credential, "scope", None)
    if isinstance(scopes, str):
        scopes = scopes.split()
    return expand(known(default if scopes is None else scopes))


def known(names: Iterable[str]) -> frozenset[str]:
    """Those of the names that are scopes."""
    return _known({_normal(name) for name in names})


def _known(names: Set[str]) -> frozenset[str]:
    return _single(names) | (names & groups().keys())


def _single(names: Iterable[str]) -> frozenset[str]:
    """Those of the names that are scopes and no groups."""
    forms = (_MODEL, _API, _TOOL)
    return frozenset(name for name in names if name in SCOPES or any(form.fullmatch(name) for form in forms))


def _normal(name: str) -> str:
    """The scope as it is compared: the labels of models are in lower case."""
    name = name.strip()
    return name.lower() if name.startswith("model:") else name
