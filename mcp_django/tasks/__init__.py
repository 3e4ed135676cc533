"""Tools that go on after their request was answered: kept in the database, run by Django's tasks framework."""
