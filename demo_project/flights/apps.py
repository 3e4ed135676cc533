from django.apps import AppConfig


class FlightsConfig(AppConfig):
    name = "demo_project.flights"
    label = "flights"
    verbose_name = "Flights out of New York"
    default_auto_field = "django.db.models.BigAutoField"
