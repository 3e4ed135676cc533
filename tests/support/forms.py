"""What a person finds in the form of a page."""

from __future__ import annotations

from html.parser import HTMLParser


class Form(HTMLParser):
    """The form of a page of ours, or of the login page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}
        #: The boxes that can be ticked: value → whether it starts ticked.
        self.boxes: dict[str, bool] = {}
        #: What is chosen at first where one of several can be chosen.
        self.chosen: dict[str, str] = {}
        #: The names of the other fields and buttons.
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in ("input", "button"):
            return
        match values.get("type"):
            case "hidden":
                self.hidden[str(values["name"])] = str(values.get("value") or "")
            case "checkbox":
                self.boxes[str(values["value"])] = "checked" in values
            case "radio":
                if "checked" in values:
                    self.chosen[str(values["name"])] = str(values["value"])
            case _:
                self.names.add(str(values.get("name") or ""))
