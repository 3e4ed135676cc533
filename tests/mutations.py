"""What the tests protect: lines that decide are changed, one at a time, and a test must fail.

    python -m tests.mutations [--only 3,17] [PYTEST_OPTIONS]

The options choose the tests that may catch a change; without any they are the ones of ``make test`` on SQLite. They are
run once with coverage, to know which of them reach which line. For each change only those are run, those that reach the
fewest of the lines first, until one fails. ``mutations.json`` keeps the changes: file, text before, text after, whether
the tests caught it when it was drawn (the floor below which no run may fall), and why it is no fault where it is none.
``--draw`` draws them anew.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

from tests.support import schemas

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mcp_django"
KEPT = Path(__file__).with_suffix(".json")
SEED = 20261126
#: How many lines are drawn of each subject.
EACH = 10
#: Subject → the files that decide it.
SUBJECTS = {
    "field policy": "bridge/resources/policy/policy bridge/resources/fields/columns bridge/resources/reading/filters "
    "bridge/resources/aggregates/operands bridge/resources/reading/known_values "
    "bridge/resources/policy/searching bridge/resources/completers bridge/resources/reading/sources "
    "bridge/resources/fields/unreadable bridge/declared/secrets bridge/declared/admin_form "
    "bridge/declared/project_hooks bridge/declared/every_object "
    "bridge/declared/inlines",
    "rows": "bridge/resources/reading/rows bridge/resources/reading/related bridge/resources/policy/visible_rows "
    "bridge/resources/policy/generic bridge/resources/rules bridge/resources/reading/selection "
    "bridge/resources/aggregates/groups bridge/resources/annotating",
    "scopes": "exchange/scopes access/permissions access/user_permissions access/authentication models/tokens "
    "models/grants console/credentials/scopes console/credentials/lifetimes server/step_up",
    "cursors": "bridge/resources/reading/cursors bridge/resources/reading/keys bridge/resources/policy/paths "
    "server/pages",
    "messages": "protocol/batches protocol/jsonrpc protocol/envelope server/dispatch server/request_state",
    "push": "push/visibility push/sight push/subscriptions push/credentials push/identities push/list_changes "
    "push/prefetch push/sweep push/live_queries push/receivers",
    "OAuth": "oauth/authorize oauth/grants oauth/clients oauth/views oauth/redirects oauth/registration "
    "oauth/documents oauth/fetching oauth/client_metadata",
    "tickets and limits": "access/tickets access/nonces access/origins access/throttling/throttles "
    "access/throttling/failures access/throttling/counters access/throttling/budgets transports/http/routes",
    "writes": "bridge/writes/*",
    "uploads": "bridge/uploads/files bridge/uploads/names bridge/uploads/upload_rows transports/http/uploads "
    "server/uploads",
    "duplex": "transports/lasting/duplex transports/lasting/duplex_request transports/lasting/lasting "
    "transports/lasting/admission transports/pacing transports/lasting/frames",
    "tools": "bridge/tools/catalog bridge/tools/actions bridge/tools/action_rows bridge/tools/confirmations "
    "bridge/tools/saved_queries bridge/tools/function",
}
LANE = ["--lane", "test"]
#: How many tests try a change at first, and how many at the most.
FEW, MOST = 40, 1_500

_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
}


@dataclass
class Mutation:
    """One line, and what it is changed to."""

    file: str
    before: str
    after: str
    #: Whether the tests caught it at the commit that it was drawn from; None until they were run.
    caught: bool | None = None
    #: Why no test has to catch it.
    why: str = ""

    def apply(self, root: Path) -> None:
        path = root / self.file
        source = path.read_text()
        assert source.count(self.before) == 1, f"{self.file} no longer has once: {self.before}"
        path.write_text(source.replace(self.before, self.after))

    @property
    def line(self) -> int:
        """The number of the line that is changed, the last one of the text."""
        source = (ROOT / self.file).read_text()
        return source[: source.index(self.before)].count("\n") + self.before.count("\n") + 1

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line} {self.before.splitlines()[-1].strip()}  →  {self.after.splitlines()[-1].strip()}"
        )


# Drawing


def draw() -> list[Mutation]:
    """The same lines for the same files: of each subject ``EACH`` lines, and of each line one change."""
    generator = random.Random(SEED)
    drawn = []
    for files in SUBJECTS.values():
        paths = [path for name in files.split() for path in sorted(PACKAGE.glob(f"{name}.py"))]
        assert len(paths) >= len(files.split()), files
        lines = [
            (path, number, changes) for path in paths for number, changes in sorted(_changes(path.read_text()).items())
        ]
        for path, number, changes in generator.sample(lines, EACH):
            usable = [mutation for text in changes if _parses(mutation := _mutation(path, number, text))]
            drawn.append(generator.choice(usable))
    return drawn


def _parses(mutation: Mutation) -> bool:
    try:
        ast.parse((ROOT / mutation.file).read_text().replace(mutation.before, mutation.after))
    except SyntaxError:
        return False
    return True


def _changes(source: str) -> dict[int, list[str]]:
    """Number of a line within a function → what the line may become."""
    found: dict[int, list[str]] = {}
    lines = source.splitlines()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in (inner for statement in function.body for inner in ast.walk(statement)):
                if getattr(node, "lineno", 0) == getattr(node, "end_lineno", None):
                    line = lines[node.lineno - 1]  # type: ignore[attr-defined]
                    found.setdefault(node.lineno, []).extend(_changed(line, node))  # type: ignore[attr-defined]
    # A value that is missing altogether is easily noticed, so that it is only drawn where nothing else can be changed.
    coarse = {
        number: [text for text in changes if not text.endswith("return None")] for number, changes in found.items()
    }
    return {number: sorted(set(coarse[number] or changes)) for number, changes in found.items() if changes}


def _changed(line: str, node: ast.AST) -> Iterator[str]:
    """The line with the node changed in one way."""

    def put(start: ast.expr | ast.stmt, end: ast.expr | ast.stmt, text: str) -> str:
        encoded = line.encode()
        return (encoded[: start.col_offset] + text.encode() + encoded[end.end_col_offset :]).decode()

    def text(part: ast.expr) -> str:
        return ast.unparse(part)

    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARED:
            between = line.encode()[left.end_col_offset : right.col_offset].decode()
            old, new = _COMPARED[type(operator)]
            yield put(node, node, text(left) + between.replace(old, new, 1) + text(right))
        case ast.BoolOp(op=ast.And() | ast.Or(), values=[first, *others]):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield put(node, node, f"({word.join(text(value) for value in (first, *others))})")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield put(node, node, f"bool({text(operand)})")
        case ast.Constant(value=bool(value)):
            yield put(node, node, str(not value))
        case ast.Constant(value=int(value)):
            yield put(node, node, str(value + 1))
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield put(node, node, "return None")
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()):
            yield put(node, node, "pass")
        case ast.If(test=test) if test.lineno == test.end_lineno:
            yield put(test, test, f"not ({text(test)})")


def _mutation(path: Path, number: int, changed: str) -> Mutation:
    """The change of one line; as many lines above belong to its text as make it the only one in its file."""
    source = path.read_text()
    lines = source.splitlines()
    start = number - 1
    while source.count("\n".join(lines[start:number])) > 1:
        start -= 1
    above = lines[start : number - 1]
    before = "\n".join([*above, lines[number - 1]])
    return Mutation(path.relative_to(ROOT).as_posix(), before, "\n".join([*above, changed]))


# Running


def reaching(mutations: Sequence[Mutation], options: Sequence[str], data: Path) -> list[list[str]]:
    """For each mutation the tests that reach its line, the likeliest to notice it first."""
    if not data.exists():
        _run_with_coverage(mutations, options, data)
    kept = CoverageData(str(data))
    kept.read()
    files = {Path(file).relative_to(ROOT).as_posix(): file for file in kept.measured_files()}
    found = []
    for mutation in mutations:
        by_line = kept.contexts_by_lineno(files[mutation.file])
        # A statement of several lines is reached by its first one.
        lines = (by_line.get(line, ()) for line in range(mutation.line, 0, -1))
        found.append({context.partition("|")[0] for context in next(filter(None, lines), ())} - {""})
    weight = Counter(test for tests in found for test in tests)
    return [_likeliest_first(tests, weight) for tests in found]


def _run_with_coverage(mutations: Sequence[Mutation], options: Sequence[str], data: Path) -> None:
    settings = data.with_name("settings.ini")
    files = sorted({mutation.file for mutation in mutations})
    settings.write_text("\n".join(["[run]", f"data_file = {data}", "include =", *(f"    {file}" for file in files)]))
    coverage = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    workers = ["--numprocesses", str(os.cpu_count() or 1), "--dist", "loadfile"]
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "pytest", "--quiet", *coverage, *workers, *options], cwd=ROOT, check=False)
    print(f"The tests were run with coverage in {time.monotonic() - begun:.0f} s.", flush=True)


def _likeliest_first(tests: Iterable[str], weight: Counter[str]) -> list[str]:
    """Those that reach few of the lines are about them; of one test each case counts after all tests that are left."""
    seen: Counter[str] = Counter()
    turns = {}
    for test in sorted(tests, key=lambda test: (weight[test], test)):
        name = test.partition("[")[0]
        turns[test] = (seen[name], weight[test], test)
        seen[name] += 1
    return sorted(turns, key=turns.__getitem__)[:MOST]


def is_caught(mutation: Mutation, tests: Sequence[str], options: Sequence[str], tree: Path) -> str:
    """The first test that fails with the mutation, "" if none does. ``tree`` is a copy of the project."""
    original = (tree / mutation.file).read_text()
    mutation.apply(tree)
    try:
        for few in (tests[:FEW], tests[FEW:]):
            if few and (failed := _first_failure(few, options, tree)):
                return failed
    finally:
        (tree / mutation.file).write_text(original)
    return ""


def _first_failure(tests: Sequence[str], options: Sequence[str], tree: Path) -> str:
    """A test, what else ended the run, or ""."""
    named = tree / "tests-of-mutation.txt"
    named.write_text("\n".join(tests))
    # No test waits for long for what the change has made endless.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout=60", "-p", "no:cacheprovider", f"@{named}"]
    environment = {**os.environ, "MCP_SCHEMAS": str(schemas.FOLDER)} if schemas.are_here() else None
    done = subprocess.run([*command, *options], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests/", "ERROR tests/"))]
    return failed[0].partition(" - ")[0] if failed else f"pytest ended with {done.returncode}"


def run(mutations: Sequence[Mutation], options: Sequence[str], data: Path) -> list[str]:
    """Which test catches each mutation; "" for those that survive."""
    tests = reaching(mutations, options, data)
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            tree = Path(folder, str(number))
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "site", "build"))
            trees.put(tree)

        def one(mutation: Mutation, reached: Sequence[str]) -> str:
            tree = trees.get()
            begun = time.monotonic()
            try:
                caught = is_caught(mutation, reached, options, tree)
            finally:
                trees.put(tree)
            said = f"caught by {caught}" if caught else f"SURVIVES {len(reached)} tests"
            print(f"{mutation}\n    {said} ({time.monotonic() - begun:.0f} s)", flush=True)
            return caught

        return list(pool.map(one, mutations, tests))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--draw", action="store_true", help="draw the lines anew, and say which of them are caught")
    parser.add_argument("--only", help="the numbers of the mutations to run, divided by commas")
    parser.add_argument("--reached", type=Path, help="a file that keeps which tests reach which lines")
    chosen_by, options = parser.parse_known_args()
    kept = draw() if chosen_by.draw else [Mutation(**one) for one in json.loads(KEPT.read_text())]
    numbers = list(map(int, chosen_by.only.split(","))) if chosen_by.only else list(range(len(kept)))
    chosen = [kept[number] for number in numbers]
    with tempfile.TemporaryDirectory() as folder:
        caught = run(chosen, options or LANE, (chosen_by.reached or Path(folder, "coverage")).absolute())
    if chosen_by.draw:
        for mutation, test in zip(chosen, caught, strict=True):
            mutation.caught = bool(test)
        KEPT.write_text(json.dumps([asdict(mutation) for mutation in kept], indent=2, ensure_ascii=False) + "\n")
    survived = [mutation for mutation, test in zip(chosen, caught, strict=True) if not test and not mutation.why]
    print(f"{sum(map(bool, caught))} of {len(caught)} caught, {len(survived)} survive without a reason.")
    for mutation in survived:
        print(f"  {mutation}")
    return int(any(mutation.caught for mutation in survived))


if __name__ == "__main__":
    sys.exit(main())
