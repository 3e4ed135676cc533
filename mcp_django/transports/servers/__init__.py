"""What ASGI says nothing of, and each server does in its own way: clients that do not read, and how a process ends.

Known are uvicorn, daphne, hypercorn and granian. Imports the hub and the settings, and no other transport.
"""
