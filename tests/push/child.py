"""What a process that multiprocessing starts is to do. It imports nothing before Django is set up there."""

from __future__ import annotations


def save_tag(name: str) -> None:
    import django

    django.setup()
    from tests.shop.models import Tag

    Tag.objects.create(name=name)
