"""The language: revisions, JSON-RPC, the envelope, errors, and what each revision knows of a result.

Imports JSON Schema, settings and types. It needs no app registry, no database and no request.
"""
