from django.apps import AppConfig


class FormsProjectConfig(AppConfig):
    name = "tests.api.forms_project"
    label = "forms_project"
    default_auto_field = "django.db.models.BigAutoField"
