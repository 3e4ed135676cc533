"""The language of MCP: revisions, JSON-RPC, the envelope, errors, and the fields that each revision has.

It imports exceptions and conf. It needs no app registry, no database and no request.
"""
