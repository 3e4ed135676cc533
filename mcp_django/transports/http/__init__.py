"""Streamable HTTP: one synchronous core, served by a Django view under WSGI and ASGI, and by an ASGI application."""
