"""A process that saves planes at a given rate, round after round, as long as each line of its input says.

A line is ``{"seconds": 60, "rate": 1000}``, and is answered with ``{"saves": N, "seconds": S}`` once the bus has every
change. Each save writes the number of the save into ``model``. Its argument is how many planes there are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import cycle

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
django.setup()

from django.db import transaction  # noqa: E402

from bench.steady import plane  # noqa: E402
from mcp_django import flush  # noqa: E402

#: Saves of one transaction.
_TOGETHER = 20


def main() -> None:
    planes = cycle([plane(number) for number in range(int(sys.argv[1]))])
    number = 0
    for line in sys.stdin:
        asked = json.loads(line)
        begun, last = time.monotonic(), number + int(asked["seconds"] * asked["rate"])
        first = number
        while number < last:
            with transaction.atomic():
                for _ in range(_TOGETHER):
                    number += 1
                    row = next(planes)
                    row.model = str(number)
                    row.save()
            time.sleep(max(0.0, begun + (number - first) / asked["rate"] - time.monotonic()))
        seconds = time.monotonic() - begun
        flush()
        print(json.dumps({"saves": number - first, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
