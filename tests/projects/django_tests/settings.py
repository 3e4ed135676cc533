"""Applications of Django's own test suite, which ``tests.projects.sources`` has unpacked."""

import sys

from tests.projects.base import *  # noqa: F403
from tests.projects.sources import folder

_TESTS = folder()
sys.path.insert(0, str(_TESTS))

INSTALLED_APPS += [  # noqa: F405
    "admin_views",
    "admin_inlines",
    "model_fields",
    "custom_pk",
    "proxy_models",
    "unmanaged_models",
]
INSTALLED_APPS[0] = "django.contrib.admin.apps.SimpleAdminConfig"
TEMPLATES[0]["DIRS"] = [_TESTS / "templates"]  # noqa: F405
ROOT_URLCONF = "tests.projects.django_tests.urls"
MCP |= {"ADMIN_SITE": "admin_views.admin.site"}  # noqa: F405
