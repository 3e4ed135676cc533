"""What the pages about tokens and grants share: those of the admin, of consent, and of each person's own apps."""
