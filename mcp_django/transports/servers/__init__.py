"""The quirks of ASGI servers: ASGI says nothing of clients that do not read, nor of how a process ends.

Known are uvicorn, daphne, hypercorn and granian. Imports the hub and the settings, and no other transport.
"""
