"""Find the principal of credentials, with DRF's authentication classes and a short-lived cache for our own tokens."""

from __future__ import annotations

import copy
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ImproperlyConfigured
from django.http import parse_cookie
from django.utils.module_loading import import_string
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import APIException, AuthenticationFailed
from rest_framework.request import Request

from mcp_django.access import failures
from mcp_django.access.token_format import is_well_formed
from mcp_django.conf import Conf, get_conf
from mcp_django.exchange import scopes
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import Forbidden, Unauthenticated

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.models import AccessToken

#: The value of WWW-Authenticate that asks for one of our tokens.
CHALLENGE = 'Bearer realm="mcp"'
_OUR_CLASSES = Conf.AUTHENTICATION_CLASSES


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>`` with the tokens of the model AccessToken (RFC 6750 §2.1)."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        # Django's ``headers`` would copy all headers and keep the copy, for each request and open socket.
        parts = str(request.META.get("HTTP_AUTHORIZATION", "")).encode("latin-1").split()
        if not parts or parts[0].lower() != b"bearer":
            return None
        if len(parts) != 2:
            raise AuthenticationFailed("The Authorization header must be: Bearer <token>.")
        principal = principals.find(parts[1], fresh=getattr(request, "mcp_fresh", False))
        if principal is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        return principal.user, principal.auth

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class PrincipalCache:
    """The tokens and named users that this process read in the last TOKEN_CACHE_SECONDS."""

    size = 10_000

    def __init__(self) -> None:
        #: By the hash of a token, or by ``user_name``.
        self._entries: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        self._lock = Lock()
        #: Counts the clearings, since what was read before one must not be kept after it.
        self._generation = 0

    def find(self, token: bytes, *, fresh: bool) -> Principal | None:
        """The principal of a token that is valid now. The user is a copy, so that a hook may write on it."""
        return self.find_hash(hashlib.sha256(token).hexdigest(), fresh=fresh)

    def find_hash(self, digest: str, *, fresh: bool) -> Principal | None:
        """As ``find``, for a token of which only the stored hash is known."""
        return self._find(digest, fresh, partial(self._load, digest))

    def find_user(self, key: Any, *, fresh: bool) -> Principal | None:
        """The user as a principal without scopes, if the user is active now."""
        return self._find(user_name(key), fresh, partial(self._load_user, key))

    def find_in_memory(self, token: bytes) -> Principal | None:
        """What ``find`` would answer from memory, or None where it would have to ask the database."""
        return self.recall(hashlib.sha256(token).hexdigest())

    def recall(self, name: str) -> Principal | None:
        """As ``find_in_memory``, by the hash of a token or by ``user_name``."""
        principal = self._remembered(name)
        return None if principal is None else _with_own_user(principal)

    def read(self, digests: Collection[str]) -> None:
        """Read many tokens with one query, by their hashes, so that ``find_hash`` finds them in memory."""
        seconds = get_conf().TOKEN_CACHE_SECONDS
        missing = [digest for digest in digests if self._remembered(digest) is None]
        if not seconds or not missing:
            return
        generation = self._generation
        found = self._valid(missing)
        until = time.monotonic() + seconds
        for token in found:
            self._keep(token.hash, until, _principal_of(token), generation)

    def clear(self) -> None:
        with self._lock:
            self._generation += 1
            self._entries.clear()

    def _find(self, name: str, fresh: bool, load: Callable[[], Principal | None]) -> Principal | None:
        seconds = get_conf().TOKEN_CACHE_SECONDS
        principal = None if fresh or not seconds else self._remembered(name)
        if principal is None:
            generation = self._generation
            principal = load()
            if principal is None:
                with self._lock:
                    self._entries.pop(name, None)
                return None
            if seconds:
                self._keep(name, time.monotonic() + seconds, principal, generation)
        return _with_own_user(principal)

    def _remembered(self, name: str) -> Principal | None:
        entry = self._entries.get(name)
        if entry is None or entry[0] <= time.monotonic():
            return None
        principal = entry[1]
        return principal if principal.auth is None or principal.auth.is_current() else None

    def _keep(self, name: str, until: float, principal: Principal, generation: int) -> None:
        with self._lock:
            if generation != self._generation:
                return
            self._entries[name] = (until, principal)
            self._entries.move_to_end(name)
            while len(self._entries) > self.size:
                self._entries.popitem(last=False)

    def _load(self, digest: str) -> Principal | None:
        found = self._valid([digest])
        return _principal_of(found[0]) if found else None

    def _valid(self, digests: list[str]) -> list[AccessToken]:
        """The tokens that let their users in. Each counts as used now."""
        from mcp_django.models import AccessToken

        tokens = AccessToken.objects.select_related("user").order_by().filter(hash__in=digests)
        found = [token for token in tokens if token.is_valid()]
        AccessToken.touch(*found)
        for token in found:
            failures.note_success(token.hash)
        return found

    def _load_user(self, key: Any) -> Principal | None:
        user = get_user_model()._default_manager.filter(pk=key).first()
        return Principal(user, frozenset()) if user is not None and user.is_active else None


def _principal_of(token: AccessToken) -> Principal:
    return Principal(token.user, frozenset(token.scopes), token, token.pk)


def user_name(key: Any) -> str:
    """The name under which a user is remembered."""
    return f"user:{key}"


def _with_own_user(principal: Principal) -> Principal:
    return replace(principal, user=copy.copy(principal.user))


principals = PrincipalCache()


def authenticate(request: MCPRequest, *, fresh: bool) -> Principal:
    """The principal of a request. Raises Unauthenticated with a challenge, Forbidden, or FailuresThrottled.

    ``fresh`` reads the database even if the cache has an answer: under WSGI, and before anything that may write.
    """
    credentials = str(request.META.get("HTTP_AUTHORIZATION", "")).partition(" ")[2].strip()
    is_ours = get_conf().AUTHENTICATION_CLASSES == _OUR_CLASSES
    failures.refuse_throttled(request, credentials)
    try:
        principal = _authenticate(request, fresh=fresh)
    except Unauthenticated as error:
        failures.count_failure(request, credentials, error, costs=not is_ours or is_well_formed(credentials))
        raise
    if credentials and not is_ours:
        failures.note_success(failures.digest_of(credentials))
    return principal


def _authenticate(request: MCPRequest, *, fresh: bool) -> Principal:
    """As ``authenticate``, without the limit of failures: an open connection ends with its first one."""
    classes = get_conf().AUTHENTICATION_CLASSES
    # Our own class reads only META, which Django's request has too.
    wrapped: Any = request if classes == _OUR_CLASSES else Request(request)
    wrapped.mcp_fresh = fresh
    asked = authenticators(classes)
    for authenticator in asked:
        try:
            found = authenticator.authenticate(wrapped)
        except AuthenticationFailed as error:
            challenge = authenticator.authenticate_header(wrapped) or CHALLENGE
            raise Unauthenticated(str(error.detail), f'{challenge}, error="invalid_token"') from None
        except APIException as error:
            raise Forbidden(str(error.detail)) from None
        if found is not None:
            user, auth = found
            return _principal(user, auth)
    anonymous = get_conf().ANONYMOUS_SCOPES
    if anonymous and not request.META.get("HTTP_AUTHORIZATION"):
        return Principal(AnonymousUser(), frozenset(anonymous))
    challenge = (asked[0].authenticate_header(wrapped) if asked else "") or CHALLENGE
    raise Unauthenticated("Credentials are needed: send Authorization: Bearer <token>.", challenge)


def authenticate_from_memory(request: MCPRequest) -> Principal | None:
    """The principal of one of our tokens that was read a moment ago, or None where the database must be asked."""
    if get_conf().AUTHENTICATION_CLASSES != _OUR_CLASSES:
        return None
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return principals.find_in_memory(token.strip().encode("latin-1", "replace")) if scheme.lower() == "bearer" else None


def authenticate_again(principal: Principal, request: MCPRequest, *, fresh: bool = False) -> Principal:
    """Look up the principal of an open connection again, by its source. Raises Unauthenticated."""
    match principal.source:
        case Source.REQUEST:
            return _authenticate(request, fresh=fresh)
        case Source.LOGIN:
            found, over = authenticate_login(request), "The login has ended."
        case Source.TICKET:
            found, over = principals.find_hash(principal.auth.hash, fresh=fresh), "The token is expired or revoked."
        case Source.COMMAND:
            found, over = principals.find_user(principal.user.pk, fresh=fresh), "The user is inactive or deleted."
    if found is None:
        raise Unauthenticated(over, CHALLENGE)
    return _renewed(principal, found)


def renew_principal(exchange: Exchange) -> None:
    """Read the token, its user and the user's permissions anew, even if they were read a moment ago.

    Raises Unauthenticated.
    """
    if exchange.principal.is_remembered:
        exchange.renew(authenticate_again(exchange.principal, exchange.request, fresh=True))


def authenticate_again_from_memory(principal: Principal, request: MCPRequest) -> Principal | None:
    """As ``authenticate_again``, or None where the database must be asked."""
    match principal.source:
        case Source.REQUEST:
            return authenticate_from_memory(request)
        case Source.LOGIN:
            return None
        case Source.TICKET:
            found = principals.recall(principal.auth.hash)
        case Source.COMMAND:
            found = principals.recall(user_name(principal.user.pk))
    return None if found is None else _renewed(principal, found)


def _renewed(principal: Principal, found: Principal) -> Principal:
    """The principal as it was found now, for a connection that came with the other one."""
    scopes = principal.scopes if principal.source is Source.COMMAND else found.scopes
    return replace(found, scopes=scopes, source=principal.source)


def authenticate_login(request: MCPRequest) -> Principal | None:
    """The principal of the login session whose cookie the request carries. The caller has checked its Origin."""
    key = parse_cookie(request.META.get("HTTP_COOKIE", "")).get(settings.SESSION_COOKIE_NAME)
    if not key or not key.isprintable():
        return None  # A quoted cookie may hold null characters, which PostgreSQL refuses with an error.
    probe = request.copy()
    probe.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(probe)
    if not user.is_authenticated:
        return None
    return replace(_principal(user, None), source=Source.LOGIN)


def _principal(user: Any, auth: Any) -> Principal:
    from mcp_django.models import AccessToken

    if not getattr(user, "is_active", True):
        raise Unauthenticated("The user is inactive.", f'{CHALLENGE}, error="invalid_token"')
    if isinstance(auth, AccessToken):
        return Principal(user, frozenset(auth.scopes), auth, auth.pk)
    return Principal(user, scopes.granted_by(auth, get_conf().DEFAULT_SCOPES), auth)


@lru_cache(maxsize=8)
def authenticators(paths: tuple[str, ...]) -> list[BaseAuthentication]:
    """One instance of each authentication class. Raises ImportError, and ImproperlyConfigured for login cookies."""
    classes = [import_string(path) for path in paths]
    for cls in classes:
        if issubclass(cls, SessionAuthentication):
            raise ImproperlyConfigured(
                f"{cls.__name__} in MCP['AUTHENTICATION_CLASSES']: a login cookie is not accepted on the MCP endpoint, "
                "since any page in the browser could send it. Use tokens."
            )
    return [cls() for cls in classes]
