"""Creating, changing and deleting rows through the admin's own forms: preview, confirmation, consent, and once."""
