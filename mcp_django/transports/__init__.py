"""Bytes in, bytes out: HTTP, WebSocket, stdio and gRPC, and the quirks of the servers below them.

A transport reads messages, hands each to ``server.dispatch``, and writes the reply and the messages that go ahead of
it. It imports server, push, bridge and the packages below them, except models. Of tools, prompts and
resources it knows nothing.
"""
