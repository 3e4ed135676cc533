"""Pages outside of the admin: the landing page, and each person's own apps and tokens."""
