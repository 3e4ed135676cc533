"""Which entry points may bypass MIDDLEWARE: those that would lose nothing that matters to an agent's call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from mcp_django.conf import get_conf

#: Middleware that chooses no rows and guards nothing for an agent's call, with what it is for.
HARMLESS: Mapping[str, str] = {
    "allauth.account.middleware.AccountMiddleware": "pages of logging in",
    "allauth.usersessions.middleware.UserSessionsMiddleware": "notes which browsers are logged in",
    "auditlog.middleware.AuditlogMiddleware": "keeps the user for its own records",
    "axes.middleware.AxesMiddleware": "turns its own refusals at the login page into pages",
    "cms.middleware.language.LanguageCookieMiddleware": "a cookie of the language",
    "cms.middleware.page.CurrentPageMiddleware": "finds the page of a URL when a template asks",
    "cms.middleware.toolbar.ToolbarMiddleware": "the toolbar of editors",
    "cms.middleware.user.CurrentUserMiddleware": "keeps the user for its own records",
    "cms.middleware.utils.ApphookReloadMiddleware": "loads URLs anew",
    "corsheaders.middleware.CorsMiddleware": "headers for pages of other origins",
    "csp.middleware.CSPMiddleware": "headers of pages",
    "debug_toolbar.middleware.DebugToolbarMiddleware": "a toolbar on pages",
    "django.contrib.auth.middleware.AuthenticationMiddleware": "the login of a browser",
    "django.contrib.auth.middleware.LoginRequiredMiddleware": "sends browsers to the login page",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware": "pages in the place of a 404",
    "django.contrib.messages.middleware.MessageMiddleware": "messages on pages",
    "django.contrib.redirects.middleware.RedirectFallbackMiddleware": "redirects in the place of a 404",
    "django.contrib.sessions.middleware.SessionMiddleware": "the session of a browser",
    "django.contrib.sites.middleware.CurrentSiteMiddleware": "request.site, which our requests look up too",
    "django.middleware.cache.FetchFromCacheMiddleware": "pages that are asked for by GET",
    "django.middleware.cache.UpdateCacheMiddleware": "pages that are asked for by GET",
    "django.middleware.clickjacking.XFrameOptionsMiddleware": "a header of pages",
    "django.middleware.common.BrokenLinkEmailsMiddleware": "mails about links that lead nowhere",
    "django.middleware.common.CommonMiddleware": "the form of URLs",
    "django.middleware.csp.ContentSecurityPolicyMiddleware": "a header of pages",
    "django.middleware.csrf.CsrfViewMiddleware": "forms of pages; no cookie brings a call here",
    "django.middleware.gzip.GZipMiddleware": "compression",
    "django.middleware.http.ConditionalGetMiddleware": "pages that have not changed",
    "django.middleware.locale.LocaleMiddleware": "the language of a browser; calls are in that of the project",
    "django.middleware.security.SecurityMiddleware": "done by access.https",
    "django_browser_reload.middleware.BrowserReloadMiddleware": "a script on pages",
    "django_htmx.middleware.HtmxMiddleware": "headers of a script on pages",
    "django_prometheus.middleware.PrometheusAfterMiddleware": "counts requests",
    "django_prometheus.middleware.PrometheusBeforeMiddleware": "counts requests",
    "hijack.middleware.HijackUserMiddleware": "marks the login of a browser",
    "oscar.apps.basket.middleware.BasketMiddleware": "the basket of a browser",
    "silk.middleware.SilkyMiddleware": "measures requests",
    "simple_history.middleware.HistoryRequestMiddleware": "keeps the user for its own records",
    "waffle.middleware.WaffleMiddleware": "writes cookies of flags into the response",
    "wagtail.contrib.redirects.middleware.RedirectMiddleware": "redirects in the place of a 404",
    "whitenoise.middleware.WhiteNoiseMiddleware": "static files",
}


#: The headers of a client that are sent again when a request like it is made.
SENT_AGAIN = (
    "HTTP_HOST", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED",
    "HTTP_ACCEPT_LANGUAGE", "HTTP_USER_AGENT", "HTTP_X_REQUEST_ID", "HTTP_TRACEPARENT",
)  # fmt: skip
OF_SERVER = ("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME")
#: What else each request has.
_OF_REQUEST = (
    *SENT_AGAIN, *OF_SERVER, "REQUEST_METHOD", "PATH_INFO", "CONTENT_LENGTH", "CONTENT_TYPE", "REMOTE_HOST",
    "REMOTE_PORT", "SERVER_PROTOCOL", "SERVER_SOFTWARE", "GATEWAY_INTERFACE", "RAW_URI", "REQUEST_URI",
)  # fmt: skip


#: The packages whose middleware chooses a tenant.
_OF_TENANTS = ("django_tenants.", "tenant_schemas.")


def unknown_middleware() -> list[str]:
    """The entries of MIDDLEWARE that may matter to an agent's call: a tenant, a database role, a list of addresses."""
    return [name for name in settings.MIDDLEWARE if name not in HARMLESS]


def chosen_tenants() -> list[str]:
    """The entries of MIDDLEWARE that choose a tenant for certain: those of django-tenants, and what inherits them."""
    return [name for name in unknown_middleware() if _is_of_tenants(import_string(name))]


def _is_of_tenants(middleware: Any) -> bool:
    parents = middleware.__mro__ if isinstance(middleware, type) else ()
    return any(f"{parent.__module__}.".startswith(_OF_TENANTS) for parent in parents)


def skips_middleware() -> bool:
    """Whether HTTP may be answered ahead of Django."""
    return get_conf().BYPASS_MIDDLEWARE or not unknown_middleware()


def runs_below(has_call_context: bool) -> bool:
    """Whether the project's code must run below its middleware, in the thread of the request: over HTTP under ASGI.

    There a call has what the middleware has set: in a thread, in a context, on a connection, or on the request.
    """
    return not skips_middleware() and not has_call_context


def withheld_of(meta: Mapping[str, Any]) -> list[str]:
    """The names in META that a request like it lacks when it is made again. META may hold the process's environment."""
    names = (name for name, value in meta.items() if isinstance(value, str) and value)
    return sorted(
        name for name in names if name not in _OF_REQUEST and (name.startswith("HTTP_") or name not in os.environ)
    )


def why_no_push(has_call_context: bool) -> str:
    """Why a request that is answered in its own thread can offer no push, in words for a client."""
    if runs_below(has_call_context):
        return "This server answers below the middleware of its project, and pushes nothing (mcp_django.W002)."
    return (
        "This server runs under WSGI, which cannot push. Serve the project with an ASGI server (daphne or uvicorn) to "
        "offer subscriptions."
    )


def socket_problem(has_call_context: bool, entry_point: str = "a socket") -> str | None:
    """Why an entry point that never passes MIDDLEWARE may not be opened, in words; None if it may."""
    unknown = unknown_middleware()
    if not unknown or get_conf().BYPASS_MIDDLEWARE or has_call_context:
        return None
    return (
        f"{entry_point} does not pass {unknown[0]}, which may choose a tenant or guard the site. Do its work in "
        "MCPSite.call_context, or set MCP['BYPASS_MIDDLEWARE'] = True if agents can do without it."
    )
