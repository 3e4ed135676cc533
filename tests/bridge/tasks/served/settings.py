"""The settings of the tests, with the tools of this folder and a short lease, so that a dead worker is soon noticed.

``TASK_FILES`` is a folder in which the tools leave traces; ``TASK_SWEEP`` says how often the database is asked.
"""

import os

from tests.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.bridge.tasks.served"]  # noqa: F405
MCP = {
    **MCP,  # noqa: F405
    "TASK_BACKEND": "database",
    "TASK_LEASE_SECONDS": 6.0,
    "SWEEP_SECONDS": float(os.environ.get("TASK_SWEEP", "0.2")),
}
