"""The app of a small shop whose REST API is compared."""

from django.apps import AppConfig


class ApiProjectConfig(AppConfig):
    """A shop without migrations: the test database makes its tables."""

    name = "tests.api.project"
    label = "api_project"
    default_auto_field = "django.db.models.BigAutoField"
