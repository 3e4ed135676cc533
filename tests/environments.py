"""Makes what tests install beside the main environment, so that no lane's time has it in it.

    python -m tests.environments node clients newest

``node`` is the conformance suite with its Node.js, ``clients`` are older versions of the official Python SDK, and
``newest`` is the newest pair of Python and Django that is found here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from tests import matrix
from tests.conformance import node
from tests.end_to_end.clients.environments import VERSIONS, python_with


def install_node() -> None:
    try:
        node.install()
    except node.NPMMissing as missing:
        print(f"skipped: {missing}")


def install_clients() -> None:
    for version in VERSIONS:
        python_with(version)


def install_newest() -> None:
    found = {pair: path for pair in matrix.PAIRS if (path := matrix.interpreter(pair.python))}
    if found:
        pair, path = list(found.items())[-1]
        matrix.python_of(pair, path)


INSTALLERS: dict[str, Callable[[], None]] = {
    "node": install_node,
    "clients": install_clients,
    "newest": install_newest,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=INSTALLERS)
    for name in parser.parse_args().names:
        INSTALLERS[name]()


if __name__ == "__main__":
    main()
