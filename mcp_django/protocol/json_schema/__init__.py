"""JSON Schema 2020-12: checks the schemas that a project wrote, and validates values with them.

No schema is ever fetched.
"""
