"""Packages that change how the admin writes, together in one project."""

from tests.projects.base import *  # noqa: F403

INSTALLED_APPS = [
    *INSTALLED_APPS,  # noqa: F405
    "guardian",
    "import_export",
    "mptt",
    "nested_admin",
    "parler",
    "reversion",
    "simple_history",
    "treebeard",
    "tests.projects.writing.studio",
]
MIDDLEWARE = [
    *MIDDLEWARE,  # noqa: F405
    "simple_history.middleware.HistoryRequestMiddleware",
]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
LANGUAGES = [("en", "English"), ("de", "German")]
LANGUAGE_CODE = "en"
PARLER_LANGUAGES = {None: ({"code": "en"}, {"code": "de"}), "default": {"fallbacks": ["en"]}}
ROOT_URLCONF = "tests.projects.writing.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
#: The second is that of requests that come from no client of HTTP.
ALLOWED_HOSTS = ["testserver", "localhost"]
MCP = {"AUDIT": "off"}
