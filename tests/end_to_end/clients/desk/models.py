from django.db import models


class Ticket(models.Model):
    """What somebody wants of the desk. Has no migrations: ``migrate --run-syncdb`` makes its table."""

    title = models.CharField(max_length=50)
    status = models.CharField(max_length=10, choices=[("open", "Open"), ("closed", "Closed")], default="open")

    def __str__(self) -> str:
        return self.title
