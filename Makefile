# make demo                a site with real data and an MCP endpoint, served on PORT with the flights that ROWS names
# make check               the everyday loop: linters, types, the import contract, each test once on SQLite
# make test                every behaviour once: each transport, PostgreSQL, the conformance suite, the demo, a browser
# make more                what CI runs beside it: MariaDB, the newest Python and Django, all real clients and pages, further cases
# make release             everything, for hours: all cases on each transport, database and Python, faults, fuzzers, mutations
# make matrix              the tests of make check on each Python found with its Django: 3.11 with 5.2, 3.12 with 6.0, 3.13 and 3.14 with 6.1
# make publish             a release: it builds this commit, asks for the version, and uploads it to PyPI
# make lowest              the tests of make check with the lowest version of each package that pyproject.toml asks for
# make projects            what agents see beside the rendered admin, in django-oscar and other projects; it downloads them
# make agents              the questions of an agent over the whole year, with what the answers cost; it loads the year at first
# make browser             each page of the console in Chromium: a strict policy, light and dark, two widths, accessibility
# make clients             what packages of clients make of our tools' schemas, into tests/clients/converted; it downloads them
# make docs                the documentation as a site, in the folder site; what it says of settings and commands is written anew
# make dist                the wheel and the source distribution, in the folder dist; built twice, they are the same bytes
# make screenshots         the pictures of these pages and of the demo's boards, in the folder screenshots
# make pictures            those of them that the documentation shows, in docs/pictures
# make wires               the tests of HTTP once more over Protobuf, and those of the WebSocket once more over gRPC
# make faults              what a deployment stands on breaks while hundreds listen; it needs PostgreSQL, Redis and nats-server
# make conformance         the conformance suite alone; it needs npm
# make bench               what serving and pushing cost, beside other servers; needs wrk, PostgreSQL and Redis
# make conformance-server  the server that the suite is run against, served on PORT
# make clean               remove the environments, the demo's database and caches

PORT ?= 8000
ROWS ?= january
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Compiled files are kept even where the shell says otherwise: tests start hundreds of processes, and each would compile anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo lint check test more release dist publish lowest wires matrix projects agents clients browser docs screenshots pictures faults bench conformance conformance-server clean

demo: $(VENV)/demo.stamp
	@$(BIN)/python manage.py demo --port $(PORT) --rows $(ROWS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

check test more release: $(VENV)/test.stamp
	@$(BIN)/python -m tests.lanes $@

dist: $(VENV)/test.stamp
	@rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*

wires: $(VENV)/test.stamp
	$(BIN)/pytest --numprocesses auto --dist loadfile --wire http-protobuf
	$(BIN)/pytest --numprocesses auto --dist loadfile --wire grpc

matrix: $(VENV)/test.stamp
	$(BIN)/python -m tests.matrix --numprocesses auto --dist loadfile --lane check -m "not slow"

publish:
	@.ci/publish

lowest: $(VENV)/test.stamp
	$(BIN)/python -m tests.matrix --lowest --numprocesses auto --dist loadfile --lane check -m "not slow"

projects: $(VENV)/test.stamp
	$(BIN)/python -m tests.projects

browser: $(VENV)/test.stamp
	$(BIN)/pytest tests/end_to_end/test_*browser.py tests/end_to_end/test_unfold.py tests/end_to_end/stories

docs: $(VENV)/test.stamp
	$(BIN)/python -m tests.documentation
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m tests.documentation.llms site

# The tests that look at every page.
PHOTOGRAPHED := $(BIN)/pytest --quiet tests/end_to_end/test_console_browser.py tests/end_to_end/test_deciding_browser.py tests/end_to_end/test_own_browser.py tests/end_to_end/test_board.py tests/end_to_end/test_unfold.py tests/end_to_end/test_oauth_browser.py -k "policy or board or readable or phone"

screenshots: $(VENV)/test.stamp
	@mkdir -p screenshots
	SCREENSHOTS=screenshots $(PHOTOGRAPHED)

pictures: $(VENV)/test.stamp
	PICTURES=1 $(PHOTOGRAPHED)

agents: $(VENV)/test.stamp
	$(BIN)/python -m tests.agents

clients: $(VENV)/test.stamp
	$(BIN)/python -m tests.clients

faults: $(VENV)/test.stamp
	$(BIN)/python -m tests.faults

bench: $(VENV)/test.stamp
	$(BIN)/python -m bench.serving
	$(BIN)/python -m bench.startup
	$(BIN)/python -m bench.profile
	$(BIN)/python -m bench.trail
	$(BIN)/python -m bench.remembered
	$(BIN)/python -m bench.forms --check
	$(BIN)/python -m bench.console --check
	$(BIN)/python -m bench.counts --check
	$(BIN)/python -m bench.many_models --check
	$(BIN)/python -m bench.push
	$(BIN)/python -m bench.sockets
	$(BIN)/python -m bench.wires

conformance: $(VENV)/test.stamp
	$(BIN)/python -m tests.conformance

conformance-server: $(VENV)/test.stamp
	@$(BIN)/python -m tests.conformance --serve $(PORT)

clean:
	rm -rf $(VENV) .venv-* .node .demo .conformance .projects .agents .cache site build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say that an environment holds what the files beside them ask for, so that a second run starts at once.

$(VENV)/demo.stamp: requirements.txt requirements-data.txt | $(BIN)/python
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -r requirements-data.txt
	@touch $@

$(VENV)/test.stamp: requirements-dev.txt $(VENV)/demo.stamp
	$(PIP) -r requirements-dev.txt
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; \
	}
	$(PYTHON) -m venv $(VENV)
