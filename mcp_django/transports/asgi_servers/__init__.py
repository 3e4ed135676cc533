"""The quirks of ASGI servers: ASGI says nothing of clients that do not read, nor of how a process ends.

uvicorn, daphne, hypercorn and granian are known. It imports no other transport.
"""
