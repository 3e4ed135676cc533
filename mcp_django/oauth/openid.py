"""What OpenID Connect adds to a request to authorize: each of its parameters is answered, refused or only a hint.

The hints, such as ``login_hint`` and ``ui_locales``, are ignored, as a server may do (OpenID Connect Core 1.0
§3.1.2.1). The server issues no ID tokens: what would stand in one, as ``claims`` and ``nonce``, is ignored too.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.http import QueryDict

from mcp_django.oauth.errors import OAuthError

#: What ``prompt`` may say. The consent page names the account, and lets the person choose another one.
PROMPTS = ("none", "login", "consent", "select_account")
RESPONSE_MODES = ("query",)
#: Parameters that would change what is asked for if they were ignored → the error of Core §3.1.2.6.
_REFUSED: Mapping[str, str] = {
    "request": "request_not_supported",
    "request_uri": "request_uri_not_supported",
    "registration": "registration_not_supported",
    "id_token_hint": "invalid_request",
}


def prompts(query: QueryDict) -> frozenset[str]:
    return frozenset(str(query.get("prompt") or "").split())


def check(query: QueryDict) -> None:
    """Raises OAuthError for what this server does not do."""
    for name, error in _REFUSED.items():
        if query.get(name):
            raise OAuthError(error, f"{name} is not supported.")
    if query.get("response_mode", "") not in ("", *RESPONSE_MODES):
        raise OAuthError("invalid_request", f"response_mode is {' or '.join(RESPONSE_MODES)}.")
    asked = prompts(query)
    if not asked <= {*PROMPTS}:
        raise OAuthError("invalid_request", f"prompt is of {', '.join(PROMPTS)}.")
    if "none" in asked and len(asked) > 1:
        raise OAuthError("invalid_request", "prompt=none stands alone.")
    if not all(map(_is_age, query.getlist("max_age"))):
        raise OAuthError("invalid_request", "max_age is a number of seconds.")


def wants_login(query: QueryDict) -> bool:
    """Whether the person must log in for this request.

    When a person logged in is known to nobody, so ``max_age`` means a new login, whatever age it allows.
    """
    return "login" in prompts(query) or bool(query.get("max_age"))


def after_login(query: QueryDict) -> QueryDict:
    """The request that is left once its person has logged in for it. What ``check`` refuses stays."""
    left = query.copy()
    for name, kept in (("prompt", _without_login), ("max_age", lambda age: "" if _is_age(age) else age)):
        left.setlist(name, list(map(kept, query.getlist(name))))
    return left


def _without_login(prompt: str) -> str:
    return " ".join(one for one in prompt.split() if one != "login")


def _is_age(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal())
