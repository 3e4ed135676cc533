"""What a request of the comparison is."""

from dataclasses import dataclass, field
from string import Formatter
from types import SimpleNamespace
from typing import Any, Literal

from django.core.files.uploadedfile import SimpleUploadedFile


@dataclass(frozen=True)
class Upload:
    """A file of a form. Each request gets one of its own, because a file is read once."""

    name: str
    content: bytes
    content_type: str = "text/plain"

    def file(self) -> SimpleUploadedFile:
        return SimpleUploadedFile(self.name, self.content, self.content_type)


@dataclass(frozen=True)
class Case:
    """One request, which names rows of ``make_rows()`` in braces."""

    operation_path: str
    method: str = "GET"
    query: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | list[Any] | None = None
    format: Literal["json", "multipart"] = "json"
    note: str = ""

    def path(self, rows: SimpleNamespace) -> str:
        """The path with the keys of the rows."""
        return self.operation_path.format(**vars(rows))

    def parameters(self, rows: SimpleNamespace) -> dict[str, Any]:
        """The query with the keys of the rows."""
        return dict(_filled(self.query, rows))

    def data(self, rows: SimpleNamespace) -> Any:
        """The body with the keys of the rows, each of its own type, and with files that nobody has read."""
        return _filled(self.body, rows)


def _filled(value: Any, rows: SimpleNamespace) -> Any:
    match value:
        case dict():
            return {key: _filled(item, rows) for key, item in value.items()}
        case list():
            return [_filled(item, rows) for item in value]
        case Upload():
            return value.file()
        case str() if value.startswith("{"):
            return Formatter().get_field(value[1:-1], (), vars(rows))[0]
    return value
