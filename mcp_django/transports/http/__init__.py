"""Streamable HTTP, and the older HTTP+SSE: one request, one view, one response.

``routes`` names the URLs and the view of each. Three entry points hand a request to it: Django's views under WSGI and
under ASGI (``views``), and an ASGI application that answers ahead of Django (``asgi``). It imports what transports may.
"""
