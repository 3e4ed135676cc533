"""The rows of the club, the same each time but for their numbers."""

from datetime import date
from decimal import Decimal
from types import SimpleNamespace

from django.contrib.auth.models import User

from tests.api.forms_project.models import Coupon, Label, Member, Note, Topic


def make_rows() -> SimpleNamespace:
    """Three users, and what belongs to them: anna and otto are members, and stella is none."""
    anna = User.objects.create_user("anna", "anna@example.com", "anna")
    otto = User.objects.create_user("otto", "otto@example.com", "otto")
    stella = User.objects.create_superuser("stella", "stella@example.com", "stella")

    anna_topic = Topic.objects.create(owner=anna, name="Garden")
    anna_second_topic = Topic.objects.create(owner=anna, name="Kitchen")
    otto_topic = Topic.objects.create(owner=otto, name="Music")

    urgent = Label.objects.create(name="urgent", colour="red")
    later = Label.objects.create(name="later", colour="blue")

    anna_note = Note.objects.create(
        owner=anna,
        topic=anna_topic,
        title="Roses",
        slug="roses",
        text="Water the roses.",
        due=date(2025, 5, 1),
        fee=Decimal("2.50"),
    )
    anna_note.labels.add(urgent)
    anna_public_note = Note.objects.create(
        owner=anna, topic=anna_second_topic, title="Soup", slug="soup", text="Water and salt.", public=True
    )
    otto_note = Note.objects.create(owner=otto, topic=otto_topic, title="Waltz", slug="waltz", text="In three.")
    otto_note.labels.add(urgent, later)

    anna_member = Member.objects.create(user=anna, number="M-1", motto="Grow")
    otto_member = Member.objects.create(user=otto, number="M-2", newsletter=False)
    anna_coupon = Coupon.objects.create(owner=anna, code="SPRING", percent=20)

    return SimpleNamespace(
        anna=anna,
        otto=otto,
        stella=stella,
        anna_topic=anna_topic,
        anna_second_topic=anna_second_topic,
        otto_topic=otto_topic,
        urgent=urgent,
        later=later,
        anna_note=anna_note,
        anna_public_note=anna_public_note,
        otto_note=otto_note,
        anna_member=anna_member,
        otto_member=otto_member,
        anna_coupon=anna_coupon,
    )
