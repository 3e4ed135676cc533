from django.apps import AppConfig


class ShelfConfig(AppConfig):
    name = "tests.projects.popular.shelf"
    label = "shelf"
