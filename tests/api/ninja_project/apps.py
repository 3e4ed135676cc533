from django.apps import AppConfig


class NinjaProjectConfig(AppConfig):
    name = "tests.api.ninja_project"
    label = "ninja_project"
    default_auto_field = "django.db.models.BigAutoField"
