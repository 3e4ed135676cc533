"""JSON Schema, 2020-12: schemas that a project wrote are checked, and values are held against them.

Imports the texts of errors and types alone. No schema is ever fetched.
"""
