"""The requests by which the club is compared. Each is sent once by every caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.api.ninja_project.requests import MISSING, Upload
from tests.api.ninja_project.requests import Case as AnyCase


@dataclass(frozen=True)
class Case(AnyCase):
    """One request. Its body has the inputs of a form by their names in the page, with a prefix where there is one."""

    format: Literal["json", "multipart", "form"] = "form"


MESSAGE = {"name": "Ida", "email": "ida@example.com", "message": "When do you meet?"}
BOOKING = {
    "booking-room": "hall",
    "booking-topic": "{anna_topic.pk}",
    "booking-day": "2025-09-01",
    "booking-fee": "12.50",
    "booking-extras": ["chairs", "light"],
    "booking-source": "web",
}
PLAN = Upload("plan.txt", b"chairs in a circle")
NOTE = {"title": "Bread", "slug": "bread", "text": "Flour and water.", "due": "2025-08-01", "fee": "1.20"}
EDIT = {"title": "Old roses", "slug": "old-roses", "text": "Prune.", "public": "on"}
WEEDS = {"title": "Weeds", "slug": "weeds"}
SIGN_UP = {"username": "ida", "age": "18", "rules": "on"}
REMINDER = {"subject": "Meeting", "at_0": "2025-09-01", "at_1": "18:30", "member": "unknown"}

CASES = [
    # A form for anyone, which sends mail
    Case("/contact/", note="the page"),
    Case("/contact/", "POST", body=MESSAGE, note="sends a mail"),
    Case("/contact/", "POST", body={**MESSAGE, "copy": "on"}, note="sends a mail to two"),
    Case("/contact/", "POST", body={**MESSAGE, "email": "nobody", "message": "Hi"}, note="invalid in two fields"),
    Case("/contact/", "POST", body={}, note="empty"),
    # Many kinds of fields, with a prefix
    Case("/booking/", note="the page"),
    Case("/booking/", "POST", body=BOOKING, note="with a topic of anna"),
    Case("/booking/", "POST", body={**BOOKING, "booking-topic": "{otto_topic.pk}"}, note="with a topic of otto"),
    Case("/booking/", "POST", body={**BOOKING, "booking-topic": MISSING}, note="with a topic that is missing"),
    Case("/booking/", "POST", body={**BOOKING, "booking-lunch": "on"}, format="multipart", note="without a file"),
    Case("/booking/", "POST", body={**BOOKING, "booking-plan": PLAN}, format="multipart", note="with a file"),
    Case(
        "/booking/",
        "POST",
        body={**BOOKING, "booking-plan": Upload("empty.txt", b"")},
        format="multipart",
        note="with a file that is empty",
    ),
    Case(
        "/booking/",
        "POST",
        body={
            **BOOKING,
            "booking-room": "cellar",
            "booking-day": "2025-02-30",
            "booking-fee": "-1",
            "booking-extras": ["fog"],
        },
        note="invalid in four fields",
    ),
    Case("/booking/", "POST", body={"room": "hall"}, note="without the prefix"),
    # Making notes
    Case("/notes/add/", note="the page"),
    Case("/notes/add/", "POST", body=NOTE, note="made"),
    Case(
        "/notes/add/",
        "POST",
        body={**NOTE, "topic": "{anna_topic.pk}", "labels": ["{urgent.pk}", "{later.pk}"]},
        note="with a topic of anna and labels",
    ),
    Case("/notes/add/", "POST", body={**NOTE, "labels": ["{urgent.pk}", MISSING]}, note="with a label that is missing"),
    Case("/notes/add/", "POST", body={**NOTE, "slug": "waltz"}, note="the slug of another"),
    Case("/notes/add/", "POST", body={**NOTE, "title": "Spam for all"}, note="the form refuses the title"),
    Case("/notes/add/", "POST", body={**NOTE, "owner": "{stella.pk}"}, note="a field that the form does not have"),
    Case("/notes/add/", "POST", body={}, note="empty"),
    Case("/topics/{anna_topic.pk}/notes/add/", note="the page, in a topic of anna"),
    Case("/topics/{anna_topic.pk}/notes/add/", query={"title": "Weeds"}, note="the page, with a title of the query"),
    Case(
        "/topics/{anna_topic.pk}/notes/add/",
        "POST",
        body={"title": "Weeds", "slug": "weeds"},
        note="in a topic of anna",
    ),
    Case(
        "/topics/{otto_topic.pk}/notes/add/",
        "POST",
        body={"title": "Weeds", "slug": "weeds"},
        note="in a topic of otto",
    ),
    Case(f"/topics/{MISSING}/notes/add/", "POST", body=WEEDS, note="in no topic"),
    Case("/topics/{anna_topic.pk}/notes/add/", "POST", body={"title": "Weeds", "slug": "two words"}, note="invalid"),
    # Changing notes
    Case("/notes/{anna_note.pk}/", note="the page, own"),
    Case("/notes/{otto_note.pk}/", note="the page, other's"),
    Case(f"/notes/{MISSING}/", note="the page, missing"),
    Case("/notes/{anna_note.pk}/", "POST", body=EDIT, note="own"),
    Case("/notes/{anna_note.pk}/", "POST", body={**EDIT, "topic": "{otto_topic.pk}"}, note="with a topic of otto"),
    Case("/notes/{otto_note.pk}/", "POST", body=EDIT, note="other's"),
    Case(f"/notes/{MISSING}/", "POST", body=EDIT, note="missing"),
    Case("/notes/{anna_note.pk}/", "POST", body={**EDIT, "title": "", "fee": "1.234"}, note="invalid"),
    Case("/notes/{anna_note.pk}/", "PUT", body=EDIT, note="a PUT, which the view takes as a POST without inputs"),
    Case("/notes/{anna_note.pk}/publish/", note="the page, own"),
    Case("/notes/{otto_note.pk}/publish/", note="the page, other's"),
    Case("/notes/{anna_note.pk}/publish/", "POST", body={"public": "on"}, note="own"),
    Case("/notes/{anna_public_note.pk}/publish/", "POST", body={}, note="own, no longer public"),
    Case("/notes/{otto_note.pk}/publish/", "POST", body={"public": "on"}, note="other's"),
    Case(f"/notes/{MISSING}/publish/", "POST", body={"public": "on"}, note="missing"),
    Case("/notes/by/roses/", note="the page, of anna"),
    Case("/notes/by/soup/", note="the page, public"),
    Case("/notes/by/no-such-note/", note="the page, missing"),
    Case("/notes/by/roses/", "POST", body={"text": "Cut them.", "due": "2025-05-02"}, note="of anna"),
    Case("/notes/by/soup/", "POST", body={"text": "Stir."}, note="public"),
    Case("/notes/by/waltz/", "POST", body={"text": "In four."}, note="of otto"),
    Case("/notes/by/no-such-note/", "POST", body={"text": "None."}, note="missing"),
    Case("/notes/by/roses/", "POST", body={"due": "soon"}, note="invalid"),
    Case("/notes/{anna_note.pk}/review/", note="the page, own"),
    Case("/notes/{anna_note.pk}/review/", "POST", body={"text": "Seen.", "title": "x", "slug": "x"}, note="own"),
    Case("/notes/{anna_note.pk}/review/", "POST", body={"text": "Seen."}, note="without what is shown alone"),
    Case("/notes/{otto_note.pk}/review/", "POST", body={"text": "Seen.", "title": "x", "slug": "x"}, note="other's"),
    Case(f"/notes/{MISSING}/review/", "POST", body={"text": "Seen.", "title": "x", "slug": "x"}, note="missing"),
    # With a permission
    Case("/labels/add/", note="the page"),
    Case("/labels/add/", "POST", body={"name": "someday", "colour": "blue"}, note="made"),
    Case("/labels/add/", "POST", body={"name": "urgent", "colour": "blue"}, note="there is such a name"),
    Case("/labels/add/", "POST", body={"name": "someday", "colour": "green"}, note="invalid"),
    # What the view refuses itself
    Case("/transfer/", note="the page"),
    Case("/transfer/", "POST", body={"amount": 100, "purpose": "Rent"}, note="all there is"),
    Case("/transfer/", "POST", body={"amount": 101}, note="more than there is"),
    Case("/transfer/", "POST", body={"amount": 500, "purpose": "nothing"}, note="refused for two reasons"),
    Case("/transfer/", "POST", body={"amount": "many"}, note="invalid"),
    # A page on success
    Case("/search/", note="the page"),
    Case("/search/", "POST", body={"words": "water", "field": "text"}, note="some are found"),
    Case("/search/", "POST", body={"words": "dragons", "field": "title"}, note="none is found"),
    Case("/search/", "POST", body={"words": "water", "field": "owner"}, note="invalid"),
    # Fields that are looked at together
    Case("/period/", note="the page"),
    Case("/period/", "POST", body={"start": "2025-01-01", "end": "2025-01-15"}, note="a short one"),
    Case("/period/", "POST", body={"start": "2025-01-15", "end": "2025-01-01"}, note="it ends before it starts"),
    Case("/period/", "POST", body={"start": "2025-01-01", "end": "2025-03-01"}, note="a long one without a reason"),
    Case("/period/", "POST", body={"start": "2025-01-01", "end": "2025-03-01", "reason": "Repairs"}, note="a long one"),
    Case("/period/", "POST", body={"start": "2025-01-01"}, note="without an end"),
    # A field that is disabled
    Case("/member/", note="the page"),
    Case("/member/", "POST", body={"motto": "Rest", "newsletter": "on"}, note="own"),
    Case("/member/", "POST", body={"motto": "Rest", "number": "M-2"}, note="the disabled field is sent"),
    Case("/member/", "POST", body={"motto": "x" * 81}, note="invalid"),
    # A field that is unique
    Case("/coupons/add/", note="the page"),
    Case("/coupons/add/", "POST", body={"code": "autumn", "percent": 15}, note="made, in capitals"),
    Case("/coupons/add/", "POST", body={"code": "spring", "percent": 15}, note="there is such a code, in capitals"),
    Case("/coupons/add/", "POST", body={"code": "autumn", "percent": 60}, note="too many percent"),
    # A page that is elsewhere
    Case("/topics/{anna_topic.pk}/close/", note="GET sends the caller elsewhere"),
    Case("/topics/{anna_topic.pk}/close/", "POST", body={"sure": "on"}, note="own"),
    Case("/topics/{anna_topic.pk}/close/", "POST", body={}, note="not sure"),
    Case("/topics/{otto_topic.pk}/close/", "POST", body={"sure": "on"}, note="other's"),
    Case(f"/topics/{MISSING}/close/", "POST", body={"sure": "on"}, note="missing"),
    # A form that the context names otherwise
    Case("/sign-up/", note="the page: members are sent elsewhere"),
    Case("/sign-up/", "POST", body=SIGN_UP, note="valid"),
    Case("/sign-up/", "POST", body={"username": "ida b", "age": "99"}, note="invalid"),
    # No page at all
    Case("/reminder/", note="there is no page: 405"),
    Case("/reminder/", "POST", body=REMINDER, note="answers a text, with 201"),
    Case(
        "/reminder/",
        "POST",
        body={
            **REMINDER,
            "every": "7 00:00:00",
            "link": "example.com/meeting",
            "details": '["coffee"]',
            "people": ["{urgent.pk}"],
            "member": "true",
        },
        note="each field",
    ),
    Case(
        "/reminder/",
        "POST",
        body={"subject": "Meeting", "at_0": "2025-09-01", "at_1": "", "every": "often", "details": "["},
        note="invalid",
    ),
    # An error
    Case("/broken/", "POST", body={"amount": "many"}, note="invalid, so that nothing breaks"),
    Case("/broken/", "POST", body={"amount": 1}, note="an error that nobody handles: 500"),
]
