"""The language of MCP: revisions, JSON-RPC, the envelope, errors, and the fields that each revision has.

It imports JSON Schema, exceptions, settings and types. It needs no app registry, no database and no request.
"""
