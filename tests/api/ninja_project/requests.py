"""The requests by which the workshop is compared. Each is sent once by every caller."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Literal

from tests.api.project.case import Upload

#: Numbers that no row has.
MISSING = 999_999
MISSING_UUID = "00000000-0000-0000-0000-0000000000ff"

_ONE_VALUE = re.compile(r"\{([\w.]+)\}")


def filled(value: Any, rows: SimpleNamespace) -> Any:
    """The value with what rows have for ``{name.attribute}``; a text that is nothing else becomes the value itself."""
    match value:
        case str() if found := _ONE_VALUE.fullmatch(value):
            return attrgetter(found[1])(rows)
        case str():
            return value.format(**vars(rows))
        case dict():
            return {name: filled(one, rows) for name, one in value.items()}
        case list():
            return [filled(one, rows) for one in value]
        case Upload():
            return value.file()
    return value


@dataclass(frozen=True)
class Case:
    """One request. Its path, query, body and headers name rows as ``{anna_item.pk}``.

    ``format`` says how the body is sent: as JSON, ``multipart/form-data`` or ``application/x-www-form-urlencoded``.
    """

    path: str
    method: str = "GET"
    query: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | list[Any] | None = None
    format: Literal["json", "multipart", "form"] = "json"
    note: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def path_of(self, rows: SimpleNamespace) -> str:
        return self.path.format(**vars(rows))

    def query_of(self, rows: SimpleNamespace) -> dict[str, Any]:
        return filled(self.query, rows)

    def body_of(self, rows: SimpleNamespace) -> Any:
        """The body, with files that are new each time."""
        return filled(self.body, rows)


ITEM = {"name": "Chisel", "slug": "chisel", "price": "7.25", "stock": 4, "due": "2025-06-30"}
ORDER = {
    "number": "00000000-0000-0000-0000-000000000021",
    "customer": "Sail & Rope",
    "address": {"street": "Quay 3", "city": "Kiel"},
    "lines": [{"text": "Rope", "amount": 2}, {"text": "Hooks", "amount": 12}],
}
TEXT = Upload("notes.txt", b"five words in one file")

CASES = [
    # Lists
    Case("/api/items/", note="all items of the caller"),
    Case("/api/items/", query={"search": "HAM"}, note="the name or the slug has the text"),
    Case("/api/items/", query={"search": "power-"}, note="the slug alone has the text"),
    Case("/api/items/", query={"done": True}, note="finished"),
    Case("/api/items/", query={"min_price": "20", "order": "-price"}, note="by price from the top"),
    Case("/api/items/", query={"due_before": "2025-06-01"}, note="due before a day"),
    Case("/api/items/", query={"ids": ["{anna_item.pk}", "{otto_item.pk}"]}, note="a list in the query"),
    Case("/api/items/", query={"due_before": "soon"}, note="a filter that is no date"),
    Case("/api/items/", query={"order": "name"}, note="an order that is not offered"),
    Case("/api/items/", query={"unknown": "1"}, note="a parameter that nobody knows"),
    Case("/api/items/paged", query={"limit": 2}, note="the first two"),
    Case("/api/items/paged", query={"limit": 2, "offset": 2}, note="the next two"),
    Case("/api/items/paged", query={"done": False}, note="a parameter beside the limit"),
    Case("/api/items/paged", query={"limit": 0}, note="a limit below one"),
    Case("/api/items/numbered", note="the first page"),
    Case("/api/items/numbered", query={"page": 2}, note="the second page"),
    Case("/api/items/numbered", query={"page": 1, "page_size": 1}, note="a page of one"),
    Case("/api/items/numbered", query={"page": 50}, note="a page after the last"),
    Case("/api/items/numbered", query={"page": 0}, note="no page"),
    # One item
    Case("/api/items/{anna_item.pk}", note="own"),
    Case("/api/items/{otto_item.pk}", note="other's"),
    Case("/api/items/{stella_item.pk}", note="of staff"),
    Case(f"/api/items/{MISSING}", note="missing"),
    Case("/api/items/key/{anna_item.key}", note="own"),
    Case("/api/items/key/{otto_item.key}", note="other's"),
    Case(f"/api/items/key/{MISSING_UUID}", note="missing"),
    Case("/api/items/hammer", note="own, by slug"),
    Case("/api/items/plane", note="other's, by slug"),
    Case("/api/items/no-such-item", note="missing, by slug"),
    Case("/api/items/{anna_item.pk}/state", note="own"),
    Case("/api/items/{otto_item.pk}/state", note="other's: an error of a schema"),
    Case(f"/api/items/{MISSING}/state", note="missing: an error of a schema"),
    # Making items
    Case("/api/items/", "POST", body=ITEM, note="made"),
    Case("/api/items/", "POST", body={"name": "Wedge", "slug": "wedge"}, note="made, with defaults"),
    Case("/api/items/", "POST", body={**ITEM, "shelf_id": "{anna_shelf.pk}"}, note="on a shelf of anna"),
    Case("/api/items/", "POST", body={**ITEM, "shelf_id": MISSING}, note="on a shelf that is missing"),
    Case("/api/items/", "POST", body={**ITEM, "shelf_id": None}, note="on no shelf"),
    Case("/api/items/", "POST", body={"slug": "Not A Slug", "stock": -1, "due": "soon"}, note="invalid in each field"),
    Case("/api/items/", "POST", body={**ITEM, "price": "7.255"}, note="too many digits"),
    Case("/api/items/", "POST", body={**ITEM, "slug": "hammer"}, note="the model refuses the slug"),
    Case("/api/items/", "POST", body={**ITEM, "owner": "stella"}, note="a field that nobody knows"),
    Case("/api/items/", "POST", body={}, note="an empty body"),
    Case("/api/items/", "POST", note="no body"),
    Case("/api/items/bulk", "POST", body=[ITEM, {"name": "Wedge", "slug": "wedge"}], note="two at once"),
    Case("/api/items/bulk", "POST", body=[ITEM, {"name": "", "slug": "wedge"}], note="the second is invalid"),
    Case("/api/items/bulk", "POST", body=[], note="none"),
    # Changing items
    Case("/api/items/{anna_item.pk}", "PUT", body=ITEM, note="own"),
    Case("/api/items/{otto_item.pk}", "PUT", body=ITEM, note="other's"),
    Case(f"/api/items/{MISSING}", "PUT", body=ITEM, note="missing"),
    Case("/api/items/{anna_item.pk}", "PUT", body={"name": "Chisel"}, note="without a slug"),
    Case("/api/items/{anna_item.pk}", "PUT", body={**ITEM, "slug": "plane"}, note="the slug of another"),
    Case("/api/items/{anna_item.pk}", "PUT", body={**ITEM, "shelf_id": "{otto_shelf.pk}"}, note="a shelf of otto"),
    Case("/api/items/{anna_item.pk}", "PATCH", body={"price": "1.00"}, note="own"),
    Case("/api/items/{anna_item.pk}", "PATCH", body={"due": None, "done": True}, note="a field is emptied"),
    Case("/api/items/{anna_item.pk}", "PATCH", body={}, note="nothing"),
    Case("/api/items/{anna_item.pk}", "PATCH", body={"price": "much"}, note="invalid"),
    Case("/api/items/{otto_item.pk}", "PATCH", body={"stock": 0}, note="other's"),
    Case(f"/api/items/{MISSING}", "PATCH", body={"stock": 0}, note="missing"),
    Case("/api/items/{anna_item.pk}", "DELETE", note="own"),
    Case("/api/items/{otto_item.pk}", "DELETE", note="other's"),
    Case(f"/api/items/{MISSING}", "DELETE", note="missing"),
    Case("/api/items/{anna_item.pk}/take", "POST", query={"amount": 2}, note="from the stock"),
    Case("/api/items/{anna_item.pk}/take", "POST", note="one, by default"),
    Case("/api/items/{anna_item.pk}/take", "POST", query={"amount": 9}, note="more than there is"),
    Case("/api/items/{anna_item.pk}/take", "POST", query={"amount": 0}, note="invalid"),
    Case("/api/items/{otto_item.pk}/take", "POST", query={"amount": 1}, note="other's"),
    Case("/api/items/{anna_item.pk}/finish", "POST", note="own"),
    Case("/api/items/{anna_done_item.pk}/finish", "POST", note="finished already"),
    Case("/api/items/{otto_item.pk}/finish", "POST", note="other's"),
    Case("/api/items/{anna_item.pk}/rename", "POST", body={"name": "Mallet", "shout": True}, note="own"),
    Case("/api/items/{anna_item.pk}/rename", "POST", body={"shout": "maybe"}, note="invalid"),
    Case("/api/items/{otto_item.pk}/rename", "POST", body={"name": "Mallet"}, note="other's"),
    Case("/api/items/{anna_item.pk}/visit", note="the first of two methods"),
    Case("/api/items/{anna_item.pk}/visit", "POST", note="the second of two methods"),
    Case("/api/items/{otto_item.pk}/visit", "POST", note="other's"),
    Case("/api/items/{anna_item.pk}/visit", "PUT", note="a method that is neither"),
    # Shelves
    Case("/api/shelves", note="all shelves of the caller"),
    Case("/api/shelves/{anna_shelf.pk}", note="own"),
    Case("/api/shelves/{otto_shelf.pk}", note="other's"),
    Case(f"/api/shelves/{MISSING}", note="missing"),
    Case("/api/shelves/top", note="no number"),
    Case("/api/shelves/{anna_shelf.pk}", "PATCH", body={"width": 90}, note="own"),
    Case("/api/shelves/{anna_shelf.pk}", "PATCH", body={"colour": "green", "width": 0}, note="invalid"),
    Case("/api/shelves/{otto_shelf.pk}", "PATCH", body={"colour": "red"}, note="other's"),
    Case("/api/shelves/{anna_empty_shelf.pk}", "DELETE", note="of staff alone"),
    Case("/api/shelves/{anna_shelf.pk}", "DELETE", note="not empty"),
    Case(f"/api/shelves/{MISSING}", "DELETE", note="missing"),
    # Orders
    Case("/api/orders/", note="all orders of the caller"),
    Case("/api/orders/", query={"customer": "mill", "page": 1}, note="by customer"),
    Case("/api/orders/", "POST", body=ORDER, note="made"),
    Case("/api/orders/", "POST", body={**ORDER, "number": "{anna_order.number!s}"}, note="there is such a number"),
    Case("/api/orders/", "POST", body={**ORDER, "lines": []}, note="without lines"),
    Case("/api/orders/", "POST", body={**ORDER, "lines": [{"text": "Rope", "amount": 0}]}, note="an invalid line"),
    Case("/api/orders/", "POST", body={**ORDER, "address": {"street": "Quay 3"}}, note="an address without a city"),
    Case("/api/orders/{anna_order.number}", note="own"),
    Case("/api/orders/{otto_order.number}", note="other's"),
    Case(f"/api/orders/{MISSING_UUID}", note="missing"),
    # Forms and files
    Case(
        "/api/desk/feedback",
        "POST",
        body={"subject": "Prices", "stars": 4, "topics": ["price", "other"], "name": "Ida"},
        format="form",
        note="each field",
    ),
    Case("/api/desk/account"),
    Case("/api/desk/feedback", "POST", body={"subject": "Prices"}, format="multipart", note="with defaults"),
    Case("/api/desk/feedback", "POST", body={"stars": 9, "topics": ["weather"]}, format="form", note="invalid"),
    Case("/api/desk/upload", "POST", body={"title": "Notes", "file": TEXT}, format="multipart", note="a file"),
    Case("/api/desk/upload", "POST", body={"title": "Notes"}, format="multipart", note="without a file"),
    Case("/api/desk/upload", "POST", body={"file": TEXT}, format="multipart", note="without a title"),
    Case(
        "/api/desk/uploads",
        "POST",
        body={"files": [TEXT, Upload("pixel.bin", b"\x00\xff", "application/octet-stream")]},
        format="multipart",
        note="two files",
    ),
    # What answers in a form of its own
    Case("/api/desk/mail", "POST", body={"to": "ida@example.com", "text": "Ready."}, note="sends a mail"),
    Case("/api/desk/mail", "POST", body={"to": "nobody", "text": ""}, note="invalid"),
    Case("/api/desk/ping", note="for anyone"),
    Case("/api/desk/greeting", note="plain text, with a default"),
    Case("/api/desk/greeting", query={"name": "Ida Ä"}, note="plain text"),
    Case("/api/desk/old", note="sends the caller elsewhere"),
    Case("/api/desk/hidden", note="not in the schema"),
    Case("/api/desk/language", note="without the header"),
    Case("/api/desk/language", headers={"Accept-Language": "de"}, note="with the header"),
    Case("/api/desk/divide/4", "PUT", note="divides"),
    Case("/api/desk/divide/0", "PUT", note="an error that nobody handles: 500"),
    Case("/api/desk/summary", note="of staff alone"),
    Case("/api/desk/later", note="on the event loop"),
    Case("/api/desk/later", query={"done": "maybe"}, note="invalid"),
    Case("/api/desk/later", "POST", body={"name": "Up", "colour": "red", "width": 10}, note="made"),
    Case("/api/desk/later", "POST", body={"name": "nowhere", "colour": "red", "width": 10}, note="declared 404"),
    Case("/api/desk/later", "POST", body={"name": "Up", "colour": "green"}, note="invalid"),
    # Tokens
    Case("/api/tokens/bearer", note="no token"),
    Case("/api/tokens/bearer", headers={"Authorization": "Bearer secret-of-anna"}, note="the token of anna"),
    Case("/api/tokens/bearer", headers={"Authorization": "Bearer secret-of-stella"}, note="the token of staff"),
    Case("/api/tokens/bearer", headers={"Authorization": "Bearer guessed"}, note="a wrong token"),
    Case("/api/tokens/key", note="no key"),
    Case("/api/tokens/key", headers={"X-Workshop-Key": "key-of-otto"}, note="the key of otto"),
    Case("/api/tokens/key", headers={"X-Workshop-Key": "key-of-nobody"}, note="a wrong key"),
    Case("/api/tokens/either", note="the session"),
    Case("/api/tokens/either", headers={"Authorization": "Bearer secret-of-anna"}, note="a token before the session"),
    # Two routers on one path
    Case("/api/board", note="the first router has it"),
    Case("/api/board", "POST", body={"text": "Closed"}, note="the second router has it, and is never asked: 405"),
    Case("/api/board/lines", note="the second router alone has this path"),
    Case("/api/version", note="on the API itself"),
    Case("/api/items/{anna_item.pk}/nothing", note="a path that is not there"),
]
