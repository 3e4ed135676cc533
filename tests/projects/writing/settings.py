"""Packages that change how the admin writes, together in one project."""

from tests.projects.base import *  # noqa: F403

INSTALLED_APPS = [
    *INSTALLED_APPS,  # noqa: F405
    "colorfield",
    "django_ckeditor_5",
    "django_countries",
    "django_json_widget",
    "djmoney",
    "guardian",
    "import_export",
    "markupfield",
    "mptt",
    "multiselectfield",
    "nested_admin",
    "parler",
    "phonenumber_field",
    "polymorphic",
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
CKEDITOR_5_CONFIGS = {"default": {"toolbar": ["bold"]}}
