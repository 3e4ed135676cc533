"""A project whose fields are translated by django-modeltranslation."""
