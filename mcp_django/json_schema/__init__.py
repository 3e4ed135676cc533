"""JSON Schema 2020-12: checks the schemas that a project wrote, and validates values with them.

It imports exceptions, unknown_names and types. No schema is ever fetched.
"""
