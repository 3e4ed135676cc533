"""The shapes of the admins of four sites, each as a small app: what agents once lost of them or got otherwise."""

from tests.projects.base import *  # noqa: F403

INSTALLED_APPS = [
    *INSTALLED_APPS,  # noqa: F405
    "tests.projects.shapes.foundation",
    "tests.projects.shapes.organizers",
    "tests.projects.shapes.releases",
    "tests.projects.shapes.watching",
]
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", "tests.projects.shapes.backend.RowPermissions"]
ROOT_URLCONF = "tests.projects.shapes.urls"
