"""How lists are divided into pages."""

from rest_framework.pagination import CursorPagination, LimitOffsetPagination, PageNumberPagination


class Pages(PageNumberPagination):
    """Numbered pages, whose size the client may choose."""

    page_size = 5
    page_size_query_param = "size"
    max_page_size = 50


class Offsets(LimitOffsetPagination):
    """Any part of a list."""

    default_limit = 3
    max_limit = 20


class Cursors(CursorPagination):
    """The newest first, and from there on."""

    page_size = 10
    ordering = "-created"
