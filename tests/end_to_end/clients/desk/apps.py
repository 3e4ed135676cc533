from django.apps import AppConfig


class DeskConfig(AppConfig):
    name = "tests.end_to_end.clients.desk"
    label = "desk"
