"""Which entry points may bypass MIDDLEWARE: those that would lose nothing that matters to an agent's call."""

from __future__ import annotations

from django.conf import settings

from mcp_django.conf import get_conf

#: Middleware that serves browsers: pages, cookies, compression, redirects. An agent's call loses nothing without it.
HARMLESS = frozenset(
    {
        "allauth.account.middleware.AccountMiddleware",
        "allauth.usersessions.middleware.UserSessionsMiddleware",
        "axes.middleware.AxesMiddleware",
        "corsheaders.middleware.CorsMiddleware",
        "csp.middleware.CSPMiddleware",
        "debug_toolbar.middleware.DebugToolbarMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
        "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.contrib.redirects.middleware.RedirectFallbackMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.sites.middleware.CurrentSiteMiddleware",
        "django.middleware.cache.FetchFromCacheMiddleware",
        "django.middleware.cache.UpdateCacheMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
        "django.middleware.common.BrokenLinkEmailsMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csp.ContentSecurityPolicyMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.middleware.security.SecurityMiddleware",
        "django_browser_reload.middleware.BrowserReloadMiddleware",
        "django_htmx.middleware.HtmxMiddleware",
        "django_prometheus.middleware.PrometheusAfterMiddleware",
        "django_prometheus.middleware.PrometheusBeforeMiddleware",
        "oscar.apps.basket.middleware.BasketMiddleware",
        "wagtail.contrib.redirects.middleware.RedirectMiddleware",
        "whitenoise.middleware.WhiteNoiseMiddleware",
    }
)


def unknown_middleware() -> list[str]:
    """The entries of MIDDLEWARE that may matter to an agent's call: a tenant, a database role, a list of addresses."""
    return [name for name in settings.MIDDLEWARE if name not in HARMLESS]


def skips_middleware() -> bool:
    """Whether HTTP may be answered ahead of Django."""
    return get_conf().BYPASS_MIDDLEWARE or not unknown_middleware()


def socket_problem(has_call_context: bool, entry_point: str = "a socket") -> str | None:
    """Why an entry point that never passes MIDDLEWARE may not be opened, in words; None if it may."""
    unknown = unknown_middleware()
    if not unknown or get_conf().BYPASS_MIDDLEWARE or has_call_context:
        return None
    return (
        f"{entry_point} does not pass {unknown[0]}, which may choose a tenant or guard the site. Do its work in "
        "MCPSite.call_context, or set MCP['BYPASS_MIDDLEWARE'] = True if agents can do without it."
    )
