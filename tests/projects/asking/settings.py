"""Packages whose admin actions ask with a page, together in one project."""

from tests.projects.base import *  # noqa: F403

INSTALLED_APPS = [
    # Before the admin, whose templates they change.
    "django_admin_action_forms",
    "admin_action_tools",
    "fsm_admin",
    "reversion",
    "simple_history",
    *INSTALLED_APPS,  # noqa: F405
    "admin_extra_buttons",
    "admin_form_action",
    "admin_wizard",
    "adminactions",
    "class_based_admin_actions",
    "django_object_actions",
    "import_export",
    "inline_actions",
    # After the admin: the other packages are made for its own templates.
    "unfold.apps.BasicAppConfig",
    "widget_tweaks",
    "tests.projects.asking.desk",
]
ROOT_URLCONF = "tests.projects.asking.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
