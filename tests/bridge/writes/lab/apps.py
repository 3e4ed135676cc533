from django.apps import AppConfig


class LabConfig(AppConfig):
    name = "tests.bridge.writes.lab"
    label = "lab"
    default_auto_field = "django.db.models.BigAutoField"
