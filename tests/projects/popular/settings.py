"""Packages that many projects have, together in one."""

from tests.projects.base import *  # noqa: F403

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.guardian",
    "unfold.contrib.import_export",
    "unfold.contrib.simple_history",
    *INSTALLED_APPS,  # noqa: F405
    "django.contrib.sites",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "django_celery_beat",
    "guardian",
    "import_export",
    "mptt",
    "parler",
    "polymorphic",
    "reversion",
    "simple_history",
    "taggit",
    "treebeard",
    "wagtail.contrib.forms",
    "wagtail.contrib.redirects",
    "wagtail.embeds",
    "wagtail.sites",
    "wagtail.users",
    "wagtail.snippets",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
    "modelcluster",
    "tests.projects.popular.shelf",
]
MIDDLEWARE = [
    *MIDDLEWARE,  # noqa: F405
    "allauth.account.middleware.AccountMiddleware",
    "reversion.middleware.RevisionMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "wagtail.contrib.redirects.middleware.RedirectMiddleware",
]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
    "guardian.backends.ObjectPermissionBackend",
]
LANGUAGES = [("en", "English"), ("de", "German")]
LANGUAGE_CODE = "en"
PARLER_LANGUAGES = {None: ({"code": "en"}, {"code": "de"}), "default": {"fallbacks": ["en"]}}
WAGTAIL_SITE_NAME = "Library"
WAGTAILADMIN_BASE_URL = "https://example.com"
SITE_ID = 1
ROOT_URLCONF = "tests.projects.popular.urls"
