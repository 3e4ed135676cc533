"""How long the fuzzer runs: always the same examples in the suite, ``FUZZ_EXAMPLES`` random ones by hand."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from tests.support.examples import examples as of_lane

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))


def fuzz(examples: int) -> Any:
    """The decorator of a fuzz test that tries so many examples in the suite."""
    return settings(
        max_examples=EXAMPLES or of_lane(examples),
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        print_blob=bool(EXAMPLES),
        # Explaining a failure takes more runs than finding it.
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
