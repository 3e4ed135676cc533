"""The commands of ``manage.py`` that come with logging in."""
