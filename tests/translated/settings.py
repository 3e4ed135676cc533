"""Settings of a project in two languages. ``LANGUAGE`` is that of the project, ``SPOKEN`` that of its calls."""

import os

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["modeltranslation", *INSTALLED_APPS, "tests.translated"]  # noqa: F405
MIDDLEWARE = [*MIDDLEWARE[:2], "django.middleware.locale.LocaleMiddleware", *MIDDLEWARE[2:]]  # noqa: F405
LANGUAGES = [("en", "English"), ("de", "German")]
LANGUAGE_CODE = os.environ["LANGUAGE"]
MODELTRANSLATION_DEFAULT_LANGUAGE = "en"
MODELTRANSLATION_FALLBACK_LANGUAGES = ("en",)
