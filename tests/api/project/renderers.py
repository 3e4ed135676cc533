"""Answers that are no plain JSON."""

import csv
import io

from rest_framework.renderers import BaseRenderer, JSONRenderer


class CSVRenderer(BaseRenderer):
    """Rows as lines, below a line with the names of their fields."""

    media_type = "text/csv"
    format = "csv"

    def render(self, data, accepted_media_type=None, renderer_context=None):
        rows = [data] if isinstance(data, dict) else data or []
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()


class EnvelopeRenderer(JSONRenderer):
    """The data of an answer beside its status."""

    def render(self, data, accepted_media_type=None, renderer_context=None):
        status = renderer_context["response"].status_code
        enveloped = {"data": data, "meta": {"status": status, "ok": status < 400}}
        return super().render(enveloped, accepted_media_type, renderer_context)
