"""What ``expose`` leaves out unless it is named: what gives access, what is internal, and what is not for agents."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.api.identity import Identity, identity_of
from mcp_django.bridge.declared.secrets import ABOUT_RIGHTS, is_about_rights, why_hidden, words_of

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation

#: Words of a path or a name that give access to somebody: alone, in two words or at the end of a longer one.
_ACCESS = frozenset({
    "2fa", "authtoken", "hijack", "impersonate", "impersonation", "login", "logins", "logoff", "logon", "logout", "mfa",
    "oauth", "otp", "passkey", "passkeys", "passwd", "password", "passwordless", "passwords", "register", "saml",
    "signin", "signout", "signup", "sso", "sudo", "switchuser", "totp", "twofactor", "u2f", "verify", "webauthn",
})  # fmt: skip
#: Beginnings and ends of such words in longer ones, as ``userlogin`` and ``passwordreset``. Not of ``hotplates``.
_ENDINGS = ("login", "logout", "passwd", "password", "signin", "signup")
_BEGINNINGS = ("passwd", "password")
#: Words of what gives access or serves machines, where the view has no model.
_INTERNAL = frozenset({
    "activate", "activation", "apikey", "apikeys", "authenticate", "authorize", "callback", "callbacks", "credential",
    "credentials", "elevate", "forgot", "hook", "hooks", "invite", "jwt", "magiclink", "metrics", "pin", "recovery",
    "refresh", "registration", "registrations", "reset", "revoke", "schema", "session", "sessions", "token", "tokens",
    "webhook", "webhooks",
})  # fmt: skip
#: Packages whose views log people in and out, or give them tokens, wherever their URLs are.
_OF_ACCESS = (
    "allauth.", "dj_rest_auth.", "djoser.", "drf_social_oauth2.", "durin.", "knox.", "oauth2_provider.",
    "rest_framework.authtoken.", "rest_framework_simplejwt.", "rest_social_auth.", "trench.",
)  # fmt: skip
#: Formats of renderers that make pages.
_PAGES = frozenset({"html", "admin", "api"})

#: No name in ``include`` offers it: its authentication must be told what to do.
MACHINES = _(
    "its authentication is for machines, or checks more than who the user is; say credentials= or "
    'authentication="replace"'
)


def why_left_out(operation: Operation) -> Any:
    """Why the defaults leave an operation out, translated when people read it; empty where they do not."""
    words = _words(operation)
    if found := min(filter(_gives_access, words | _words_of_class(operation)), default=""):
        return format_lazy(_("its name or path has the word {word}, so it may give access"), word=found)
    module = f"{getattr(operation.view_class, '__module__', '')}."
    if package := next(filter(module.startswith, _OF_ACCESS), ""):
        return format_lazy(_("it is a view of {package}, so it may give access"), package=package.rstrip("."))
    model = operation.model
    if model is None and (found := min(words & _INTERNAL, default="")):
        return format_lazy(_("its name or path has the word {word}, and its view no model"), word=found)
    if model is not None and (why := why_hidden(model)) is not None and why is not ABOUT_RIGHTS:
        return why
    if not operation.is_safe and _asks_for_nobody(operation):
        return _("it changes data and asks for no authentication, as a webhook does")
    if not operation.is_safe and model is not None and is_about_rights(model):
        return _("it changes users, groups or permissions")
    if _is_page(operation):
        return _("it answers with a page for people")
    if not (operation.is_rest or operation.native is not None) and not callable(operation.exposure.target):
        return _("it is a view of Django alone, which does not say what it takes")
    return ""


def _asks_for_nobody(operation: Operation) -> bool:
    if operation.native is not None:
        return not operation.native.has_authentication
    return identity_of(operation) is Identity.NOBODY


def _gives_access(word: str) -> bool:
    return word in _ACCESS or word.endswith(_ENDINGS) or word.startswith(_BEGINNINGS)


def _words(operation: Operation) -> frozenset[str]:
    """The words of the path and of the names, and each two together: ``cash-registers`` has no ``register``."""
    fixed = [part for part in operation.route.text.split("/") if "{" not in part]
    found: set[str] = set()
    for name in (*fixed, operation.resource, operation.action, operation.route.url_name):
        split = words_of(name)
        found |= {*split, *re.split(r"[^a-z0-9]+", name.lower()), *(one + two for one, two in pairwise(split))}
    return frozenset(found)


def _words_of_class(operation: Operation) -> frozenset[str]:
    """The words of the name of a view without a model. Whoever must log in to see it does not log in by it."""
    name = getattr(operation.view_class, "__name__", "") if operation.model is None else ""
    return frozenset(words_of(name.replace("LoginRequired", "")))


def _is_page(operation: Operation) -> bool:
    if not operation.is_rest:
        return False
    formats = {getattr(one, "format", None) for one in operation.option("renderer_classes", ())}
    return bool(formats) and formats <= _PAGES
