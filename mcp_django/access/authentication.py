"""Find the principal of credentials, with DRF's authentication classes and a short-lived cache for our own tokens."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ImproperlyConfigured
from django.http import parse_cookie
from django.utils import timezone
from django.utils.module_loading import import_string
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import APIException, AuthenticationFailed
from rest_framework.request import Request

from mcp_django.access.refused_tokens import UNKNOWN, TokenRefused, admits, unauthenticated
from mcp_django.access.throttling import failures
from mcp_django.access.throttling.failures import KnownCallers, known_callers
from mcp_django.conf import OAUTH_APP, Conf, get_conf, kept_with_settings
from mcp_django.core.compat.queries import PreparedList, PreparedQuery
from mcp_django.core.compat.requests import copy_of
from mcp_django.core.memory import Memory
from mcp_django.core.running.workers import ADDRESS, count_as
from mcp_django.core.secret import Secret
from mcp_django.exchange import scopes
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.principals import WITHHELD, Lent, Principal, Source
from mcp_django.exchange.requests import AUTHORIZATION, MCPRequest
from mcp_django.exchange.token_format import is_well_formed
from mcp_django.protocol.errors import Forbidden, Unauthenticated

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.exchange.exchange import Exchange
    from mcp_django.models import AccessToken, Grant

#: The value of WWW-Authenticate that asks for one of our tokens.
CHALLENGE = 'Bearer realm="mcp"'
#: Prefix of the names under which the users of grants are remembered. The hash of a token has no colon.
_GRANT = "grant:"
OUR_CLASSES = Conf.AUTHENTICATION_CLASSES


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>`` with the tokens of the model AccessToken (RFC 6750 §2.1).

    Gives the user and the AccessToken, or None for another scheme. Raises AuthenticationFailed for a token that is
    unknown, expired or revoked, and tells the holder of one that has ended when that was.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        digest = _hash_of_bearer(request)
        if digest is None:
            return None
        asked: Any = request
        fresh = getattr(request, "mcp_fresh", False)
        principal = principals.find_hash(digest, asked, fresh=fresh) if digest else None
        if principal is None:
            raise TokenRefused(find_token(digest), asked)
        return principal.user, principal.auth

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class PrincipalCache:
    """The tokens, grants and users that this process read in the last TOKEN_CACHE_SECONDS."""

    def __init__(self) -> None:
        #: By the hash of a token, by ``grant_name`` or by ``user_name``.
        self._known: Memory[Principal] = Memory()

    def find_hash(self, digest: str, request: MCPRequest | None = None, *, fresh: bool) -> Principal | None:
        """The principal of a token that is valid now, by its hash. The user is a copy, so that a hook may write on it.

        A token that is bound to addresses is valid only for a request from one of them.
        """
        return self._find(digest, fresh, partial(self._load, digest), request)

    def find_line(self, line: str | UUID, grant: int | None, request: MCPRequest | None) -> Principal | None:
        """As ``find_hash``, for what a token began: by its grant while that holds, with all scopes of the grant.

        Without a grant, the newest token of the credential line counts. The cache is not used.
        """
        if grant is None:
            found = self._newest(line)
            return None if found is None else _mark_used(_admitted(_principal_of(found), request))
        # Other grants of the line are other consents. The newest token may not have reached its client yet, so it
        # does not count as used.
        newest = self._newest_of_grant(grant)
        if newest is None or newest.grant is None:
            return None
        held = scopes.expand(scopes.known(newest.grant.scopes))
        return _admitted(replace(_principal_of(newest), lasting=held, lent=_lent_to(newest.grant)), request)

    def find_user(self, key: Any, *, fresh: bool) -> Principal | None:
        """The user as a principal without scopes, if the user is active now."""
        return self._find(user_name(key), fresh, partial(self._load_user, key), None)

    def find_by_grant(self, opened: Principal, request: MCPRequest, *, fresh: bool) -> Principal | None:
        """The principal of what a token of a grant has opened, as long as the grant holds.

        The token itself may have expired, and its row may be gone.
        """
        key = opened.grant_id
        found = self._find(grant_name(key), fresh, partial(self._load_grant, key), None)
        return None if found is None else _mark_used(_by_grant(opened, found, request))

    def recall(self, name: str, request: MCPRequest | None = None) -> Principal | None:
        """What is remembered, by the hash of a token, by ``grant_name`` or by ``user_name``; else None."""
        principal = self._known.get(name)
        return None if principal is None else _admitted(principal, request)

    def read(self, names: Collection[str]) -> dict[str, Principal]:
        """The principals of many open connections that are valid now, by their names: see ``name_of``, ``admitted``.

        Those that are not remembered are read together.
        """
        known = {name: self._known.get(name) for name in names}
        missing = [name for name, principal in known.items() if principal is None]
        found = {name: principal for name, principal in known.items() if principal is not None}
        if not missing:
            return found
        generation = self._known.generation
        for name, principal in {**self._by_hashes(missing), **self._by_grants(missing)}.items():
            found[name] = principal
            if get_conf().TOKEN_CACHE_SECONDS:
                self._keep(name, principal, generation)
        return found

    def clear(self) -> None:
        self._known.clear()

    def forget_users(self, keys: Collection[str]) -> None:
        """Forget what is remembered of these users, by the texts of their keys."""
        self._known.forget_where(lambda principal: str(principal.user.pk) in keys)

    def _find(
        self, name: str, fresh: bool, load: Callable[[], Principal | None], request: MCPRequest | None
    ) -> Principal | None:
        principal = None if fresh else self._known.get(name)
        if principal is not None:
            return _admitted(principal, request)
        generation = self._known.generation
        principal = load()
        if principal is None:
            self._known.forget(name)
            return None
        if get_conf().TOKEN_CACHE_SECONDS:
            self._keep(name, principal, generation)
            return _mark_used(_admitted(principal, request))
        return _mark_used(principal if _may_come(principal, request) else None)

    def _keep(self, name: str, principal: Principal, generation: int) -> None:
        expires_at = None
        # A token or a grant; a user that was found by name has neither.
        if principal.auth is not None:
            principal.auth.known_permissions = {}
            expires_at = principal.auth.expires_at
        if principal.token_id is not None:
            # An equal text, which is kept once.
            name = principal.auth.hash
        self._known.keep(name, principal, generation, expires_at)

    def _load(self, digest: str) -> Principal | None:
        token = find_token(digest)
        return _principal_of(token) if token is not None and token.is_valid() else None

    def _by_hashes(self, names: list[str]) -> dict[str, Principal]:
        """The principals of the tokens that let their users in, by their hashes."""
        from mcp_django.models import AccessToken

        hashes = [name for name in names if not name.startswith(_GRANT)]
        found = _tokens_by_hash(get_user_model()).fetch(AccessToken.objects.db, hashes) if hashes else []
        tokens = [token for token in found if token.is_valid()]
        if tokens:
            tokens[0].touch(*tokens)
        return {token.hash: _principal_of(token) for token in tokens}

    def _by_grants(self, names: list[str]) -> dict[str, Principal]:
        """The principals of the grants that let their users in, by ``grant_name``."""
        from mcp_django.models import Grant

        keys = [int(name.removeprefix(_GRANT)) for name in names if name.startswith(_GRANT)]
        grants = Grant.objects.current().select_related("user").filter(pk__in=keys) if keys else []
        return {grant_name(grant.pk): _principal_of_grant(grant) for grant in grants if grant.is_valid()}

    def _newest(self, line: str | UUID) -> AccessToken | None:
        """The newest of the tokens of a line that let their user in."""
        from mcp_django.models import AccessToken

        tokens = AccessToken.objects.select_related("user").filter(line=line, grant=None).order_by("-pk")
        return next((token for token in tokens if token.is_valid()), None)

    def _newest_of_grant(self, key: int) -> AccessToken | None:
        """The newest token of a grant, even if it has expired, as long as the grant holds."""
        from mcp_django.models import AccessToken

        found = AccessToken.objects.select_related("user", "grant").filter(grant=key).order_by("-pk").first()
        return found if found is not None and found.is_continued() else None

    def _load_grant(self, key: Any) -> Principal | None:
        from mcp_django.models import Grant

        grant = Grant.objects.select_related("user").filter(pk=key).first()
        return _principal_of_grant(grant) if grant is not None and grant.is_valid() else None

    def _load_user(self, key: Any) -> Principal | None:
        user = get_user_model()._default_manager.filter(pk=key).first()
        return Principal(user, frozenset()) if user is not None and user.is_active else None


def find_token(digest: str) -> AccessToken | None:
    """The token of this hash with its user, whether or not it lets its user in. None for an empty hash."""
    from mcp_django.models import AccessToken

    found = _token_by_hash(get_user_model()).fetch(AccessToken.objects.db, digest) if digest else []
    return found[0] if found else None


@lru_cache(maxsize=8)
def _token_by_hash(user_model: type[Model]) -> PreparedQuery:
    """The query for a token with its user."""
    from mcp_django.models import AccessToken

    tokens = AccessToken.objects.select_related("user").order_by()
    return PreparedQuery(lambda digest: tokens.filter(hash=digest), AccessToken._meta.get_field("hash"))


@lru_cache(maxsize=8)
def _tokens_by_hash(user_model: type[Model]) -> PreparedList:
    """The query for many tokens with their users."""
    from mcp_django.models import AccessToken

    tokens = AccessToken.objects.select_related("user").order_by()
    return PreparedList(lambda digests: tokens.filter(hash__in=digests), AccessToken._meta.get_field("hash"))


def read_together(opened: Iterable[Principal]) -> dict[str, Principal]:
    """The present principals of open connections, by their names, for ``admitted``.

    Those that only their credentials can find are left out.
    """
    is_ours = get_conf().AUTHENTICATION_CLASSES == OUR_CLASSES
    return principals.read({
        name_of(one)
        for one in opened
        if one.token_id is not None
        and (one.grant_id is not None or one.source is Source.TICKET or (one.source is Source.REQUEST and is_ours))
    })  # fmt: skip


def name_of(opened: Principal) -> str:
    """The name by which the principal of an open connection, which came with a token, is remembered."""
    return grant_name(opened.grant_id) if opened.grant_id is not None else str(opened.auth.hash)


def admitted(found: Principal, opened: Principal, request: MCPRequest) -> Principal:
    """As ``authenticate_again``, for an open connection whose principal was just ``found``. Raises Unauthenticated."""
    has_grant = opened.grant_id is not None
    principal = _by_grant(opened, found, request) if has_grant else _admitted(found, request)
    if principal is None:
        raise Unauthenticated(UNKNOWN, CHALLENGE)
    return principal if has_grant else _renewed(opened, principal)


def _may_come(principal: Principal, request: MCPRequest | None) -> bool:
    return principal.token_id is None or _lets_in(principal.auth, request)


def _lets_in(token: AccessToken, request: MCPRequest | None) -> bool:
    """Whether the token may be used by the request: most are bound to no address and to no resource."""
    return not (token.addresses or token.resource) or admits(token.addresses, token.resource, request)


def _admitted(principal: Principal, request: MCPRequest | None) -> Principal | None:
    """The principal with a user of its own, if its token may be used from where the request comes from."""
    return _with_own_user(principal) if _may_come(principal, request) else None


def _mark_used(principal: Principal | None) -> Principal | None:
    """Record the use of the token, at most once a minute, and return the principal."""
    if principal is not None and principal.token_id is not None:
        used = principal.auth.last_used_at
        # Mostly it was written a moment ago.
        if used is None or used <= timezone.now() - timedelta(minutes=1):
            principal.auth.touch(principal.auth)
    return principal


def _principal_of(token: AccessToken) -> Principal:
    return Principal(token.user, _scopes_of(token), token, token.pk, lent=_lent_to(token))


def _scopes_of(holder: AccessToken | Grant) -> frozenset[str]:
    return _expanded(tuple(holder.scopes))


def _lent_to(holder: AccessToken | Grant) -> Lent:
    """What it is lent, whether or not that has ended."""
    if not holder.lent:
        return ()
    return tuple((one, end) for name, end in holder.lent.items() for one in sorted(_expanded((name,))))


@kept_with_settings
def _expanded(names: tuple[str, ...]) -> frozenset[str]:
    """The scopes of these names. Tokens with the same ones share a set."""
    return scopes.expand(names)


def _principal_of_grant(grant: Grant) -> Principal:
    return Principal(grant.user, frozenset(), grant, lent=_lent_to(grant))


def _by_grant(opened: Principal, found: Principal, request: MCPRequest) -> Principal | None:
    """What a token has opened, with the user as ``found`` by its grant. It keeps the scopes of the token.

    What the grant is lent meanwhile counts too, but not for a token with less than the grant has: its client may have
    asked for less to hand it on.
    """
    token = copy_of(opened.auth)
    token.known_permissions = found.auth.known_permissions
    lent = found.lent
    if lent:
        had, is_whole = dict(opened.lent), _scopes_of(found.auth) <= opened.lasting
        # An end that is WITHHELD is false too.
        lent = tuple((scope, end if had.get(scope, is_whole) else WITHHELD) for scope, end in lent)
    return _admitted(replace(opened, user=found.user, auth=token, lent=lent), request)


def grant_name(key: Any) -> str:
    """The name under which the user of a grant is remembered."""
    return f"{_GRANT}{key}"


def user_name(key: Any) -> str:
    """The name under which a user is remembered."""
    return f"user:{key}"


def _with_own_user(principal: Principal) -> Principal:
    return replace(principal, user=copy_of(principal.user))


principals = PrincipalCache()


def authenticate(request: MCPRequest, *, fresh: bool) -> Principal:
    """The principal of a request. Raises Unauthenticated with a challenge, Forbidden, or FailuresThrottled.

    ``fresh`` reads the database even if the cache has an answer: under WSGI, and before anything that may write.
    """
    digest = _digest_of(request)
    if failures.throttled and digest and known_key(digest) is None:
        failures.check(request)
    try:
        principal = _authenticate(request, fresh=fresh)
    except Unauthenticated as error:
        known_callers.forget(digest)
        if error.has_failed and digest and _may_hold(request) and not _is_of_client(error.token, digest):
            failures.note(request)
        raise
    seen = known_callers.get(digest)
    if digest and (seen is None or seen.due <= time.monotonic()):
        note_caller(digest, principal)
    return principal


def _is_of_client(token: AccessToken | None, digest: str) -> bool:
    """Whether we gave the token to an OAuth client: then it has expired, and nobody has guessed it.

    All users of a hosted client share its addresses, and the tokens of some of them expire in every minute.
    """
    if token is None and get_conf().AUTHENTICATION_CLASSES != OUR_CLASSES:
        # A class of the project has refused it, and does not say which it is.
        token = find_token(digest)
    return token is not None and token.grant_id is not None


def queue_key(request: MCPRequest) -> str | None:
    """Names the caller of a request before it is authenticated: a known user, or an address.

    None where ``authenticate`` refuses the credentials for their form, which takes no query and so no thread.
    """
    key = known_key(_digest_of(request))
    return key or (address_key(request) if _may_hold(request) else None)


def caller_of(request: MCPRequest) -> str:
    """As ``queue_key``, for a request that takes a thread whatever its credentials are."""
    return queue_key(request) or address_key(request)


def known_key(digest: str, callers: KnownCallers = known_callers) -> str | None:
    """The key of the user whose credentials have this hash and were valid a while ago, or None."""
    seen = callers.get(digest)
    return seen.key if seen is not None and seen.until > time.monotonic() else None


def address_key(request: MCPRequest) -> str:
    """Names an unknown caller, by its address."""
    return ADDRESS + client_address(request)


def key_of(principal: Principal, request: MCPRequest) -> str:
    """Names an authenticated caller for queues: callers without a user count as their addresses."""
    return address_key(request) if principal.user.pk is None else principal.key


def note_caller(digest: str, principal: Principal) -> None:
    """Note that the credentials are valid: this request, and theirs of the next hour, queue as the principal's."""
    if principal.user.pk is not None:
        known_callers.note(digest, principal.key)
        count_as(principal.key)


def _words_of(request: Any) -> list[str]:
    """The words of the Authorization header. The request is ours, or that of a view in which our class is used."""
    # Django's ``headers`` would copy all headers and keep the copy, for each request and open socket.
    words: list[str] = (getattr(request, "authorization", "") or request.META.get(AUTHORIZATION) or "").split()
    return words


def _hash_of_bearer(request: Any) -> str | None:
    """The hash of a Bearer token; None for another scheme; empty for a text without a token's form.

    Raises AuthenticationFailed where more or less than one word follows the scheme.
    """
    match _words_of(request):
        case [scheme, token] if scheme.lower() == "bearer":
            digest = _hash_of(token)
            # A text without the form of a token is in no database.
            return digest if digest in known_callers or is_well_formed(token) else ""
        case [scheme, *_] if scheme.lower() == "bearer":
            raise AuthenticationFailed("The Authorization header must be: Bearer <token>.")
    return None


def _hash_of(token: str) -> str:
    return hashlib.sha256(token.encode("latin-1", "replace")).hexdigest()


def _digest_of(request: MCPRequest) -> str:
    """The hash of the token in the Authorization header, or of the whole header; empty if there is none."""
    match _words_of(request):
        case []:
            return ""
        case [scheme, token] if scheme.lower() == "bearer":
            return _hash_of(token)
        case words:
            return _hash_of(" ".join(words))


def _may_hold(request: MCPRequest) -> bool:
    """Whether credentials of this form can be valid. Only the form of our own tokens is known."""
    if get_conf().AUTHENTICATION_CLASSES != OUR_CLASSES:
        return True
    match _words_of(request):
        case []:
            return bool(get_conf().ANONYMOUS_SCOPES) and not request.authorization
        case [scheme, token]:
            return scheme.lower() == "bearer" and is_well_formed(token)
    return False


def _authenticate(request: MCPRequest, *, fresh: bool) -> Principal:
    """As ``authenticate``, without the limit of failures: an open connection ends with its first failure."""
    classes = get_conf().AUTHENTICATION_CLASSES
    # Our own class needs no request of Django REST framework.
    shown = request if classes == OUR_CLASSES else request.with_credentials()
    wrapped: Any = request if classes == OUR_CLASSES else Request(shown)
    wrapped.mcp_fresh = fresh
    asked = authenticators(classes)
    for authenticator in asked:
        try:
            found = authenticator.authenticate(wrapped)
        except AuthenticationFailed as error:
            raise unauthenticated(error, authenticator.authenticate_header(wrapped) or CHALLENGE) from None
        except APIException as error:
            raise Forbidden(str(error.detail)) from None
        if found is not None:
            user, auth = found
            vars(request).update(shown.attributes())
            return _principal(user, auth, request)
    anonymous = None if request.authorization else _anonymous()
    if anonymous is not None:
        return anonymous
    challenge = (asked[0].authenticate_header(wrapped) if asked else "") or CHALLENGE
    way_in = "Log in as WWW-Authenticate says" if apps.is_installed(OAUTH_APP) else "An administrator makes tokens"
    raise Unauthenticated(f"Credentials are needed: send Authorization: Bearer <token>. {way_in}.", challenge)


def authenticate_from_memory(request: MCPRequest) -> Principal | None:
    """The principal of a request without a token, or with one of ours that was read a moment ago.

    None where the database must be asked, or where the credentials are refused.
    """
    if get_conf().AUTHENTICATION_CLASSES != OUR_CLASSES:
        return None
    if not request.authorization:
        return _anonymous()
    try:
        digest = _hash_of_bearer(request)
    except AuthenticationFailed:
        return None
    return principals.recall(digest, request) if digest else None


def _anonymous() -> Principal | None:
    """The principal of a request without credentials, where ANONYMOUS_SCOPES let it in."""
    held = _anonymous_scopes()
    return Principal(AnonymousUser(), held) if held else None


@kept_with_settings
def _anonymous_scopes() -> frozenset[str]:
    return scopes.expand(scopes.known(get_conf().ANONYMOUS_SCOPES))


def authenticate_again(principal: Principal, request: MCPRequest, *, fresh: bool = False) -> Principal:
    """Look up the principal of an open connection again, by its grant or its source. Raises Unauthenticated."""
    if principal.grant_id is not None:
        continued = principals.find_by_grant(principal, request, fresh=fresh)
        if continued is None:
            raise Unauthenticated("The grant has ended.", CHALLENGE, trail_reason=_end_of_grant(principal.grant_id))
        return continued
    match principal.source:
        case Source.REQUEST:
            return _authenticate(request, fresh=fresh)
        case Source.LOGIN:
            found, over = authenticate_login(request), "The login has ended."
        case Source.TICKET:
            found = principals.find_hash(principal.auth.hash, request, fresh=fresh)
            if found is None:
                raise unauthenticated(TokenRefused(find_token(principal.auth.hash), request), CHALLENGE)
        case Source.COMMAND:
            # It is not told which of them: see ``refused_tokens``.
            found, over = principals.find_user(principal.user.pk, fresh=fresh), "The user may no longer connect."
    if found is None:
        raise Unauthenticated(over, CHALLENGE, trail_reason=_end_of_user(principal.user.pk))
    return _renewed(principal, found)


def _end_of_user(key: Any) -> str:
    """As ``_end_of_grant``, of a user: inactive, or active and logged out, or deleted."""
    is_inactive = get_user_model()._default_manager.filter(pk=key, is_active=False).exists()
    return "INACTIVE" if is_inactive else ""


def _end_of_grant(key: int) -> str:
    """Why a grant does not let its user in any more, as the trail names it; empty where its row is gone."""
    from mcp_django.models import Grant

    grant = Grant.objects.select_related("user").filter(pk=key).first()
    if grant is None or grant.is_valid():
        return ""
    if not grant.user.is_active:
        return "INACTIVE"
    return "EXPIRED" if grant.ended_at is None else "REVOKED"


def renew_principal(exchange: Exchange) -> None:
    """Read the token, its user and the user's permissions anew, even if they were read a moment ago.

    Raises Unauthenticated.
    """
    if exchange.principal.is_remembered:
        exchange.renew(authenticate_again(exchange.principal, exchange.request, fresh=True))


def authenticate_again_from_memory(principal: Principal, request: MCPRequest) -> Principal | None:
    """As ``authenticate_again``, or None where the database must be asked."""
    if principal.grant_id is not None:
        remembered = principals.recall(grant_name(principal.grant_id))
        return None if remembered is None else _by_grant(principal, remembered, request)
    match principal.source:
        case Source.REQUEST:
            return authenticate_from_memory(request)
        case Source.LOGIN:
            return None
        case Source.TICKET:
            found = principals.recall(principal.auth.hash, request)
        case Source.COMMAND:
            found = principals.recall(user_name(principal.user.pk))
    return None if found is None else _renewed(principal, found)


def _renewed(principal: Principal, found: Principal) -> Principal:
    """The principal that was just ``found``, for a connection that was opened with ``principal``."""
    if principal.source is Source.REQUEST:
        return found
    lasting = principal.lasting if principal.source is Source.COMMAND else found.lasting
    return replace(found, lasting=lasting, source=principal.source)


def authenticate_login(request: MCPRequest) -> Principal | None:
    """The principal of the login session whose cookie the request carries. The caller has checked its Origin."""
    login = login_request(request)
    if login is None:
        return None
    principal = replace(_principal(login.user, None, request), source=Source.LOGIN)
    note_caller(_digest_of_login(request), principal)
    return principal


def login_request(request: MCPRequest) -> MCPRequest | None:
    """The request with the session of its cookie and the user of that; None where nobody is logged in."""
    key = _session_key(request)
    if not key or not key.isprintable():
        return None  # A quoted cookie may hold null characters, which PostgreSQL refuses with an error.
    probe = request.copy()
    probe.session = import_module(settings.SESSION_ENGINE).SessionStore(key.reveal())
    probe.user = get_user(probe)
    return probe if probe.user.is_authenticated else None


def login_key(request: MCPRequest) -> str:
    """As ``queue_key``, for a request with the cookie of a login session."""
    return known_key(_digest_of_login(request)) or address_key(request)


def _digest_of_login(request: MCPRequest) -> str:
    return hashlib.sha256(_session_key(request).encode()).hexdigest()


def _session_key(request: MCPRequest) -> Secret:
    return Secret(parse_cookie(request.cookie).get(settings.SESSION_COOKIE_NAME) or "")


def _principal(user: Any, auth: Any, request: MCPRequest) -> Principal:
    from mcp_django.models import AccessToken

    is_active = getattr(user, "is_active", True)
    if isinstance(auth, AccessToken):
        # A class of the project may have found the token itself.
        if not is_active or not _lets_in(auth, request):
            raise unauthenticated(TokenRefused(auth, request), CHALLENGE)
        return Principal(user, _scopes_of(auth), auth, auth.pk, lent=_lent_to(auth))
    if not is_active:
        raise Unauthenticated(UNKNOWN, f'{CHALLENGE}, error="invalid_token"', trail_reason="INACTIVE")
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
