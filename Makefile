# Needs make and Python 3.11 to 3.14, nothing else: the first target you run makes .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile
EXTRAS := .[dev,reference,dask,ray,postgres]

.DEFAULT_GOAL := help
.PHONY: help release docs test test-foreign test-slow test-lowest lint bench smartnoise flower install deploy clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-10s %s\n", $$1, $$2 }'

# mypy takes one core: `make test` has it beside the tests.
define all-lint
$(BIN)/mypy --no-error-summary >.venv/mypy.log 2>&1 & mypy=$$!; failed=0; \
trap 'kill $$mypy 2>/dev/null' INT TERM; \
$(BIN)/ruff check --quiet . || failed=1; \
$(BIN)/ruff format --check --quiet . || { echo "Some files are not formatted; run $(BIN)/ruff format ."; failed=1; }; \
$(BIN)/lint-imports --no-logo >.venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; failed=1; }; \
$(BIN)/deptry . >.venv/deptry.log 2>&1 || { cat .venv/deptry.log; failed=1; }; \
wait $$mypy || { cat .venv/mypy.log; failed=1; }; \
[ $$failed = 0 ] && echo "Lint: clean."
endef

release: .venv/.installed ## Make the example release in releases/<UTC time>, and a page about it
	@$(BIN)/equistrata release --config docs/example_release.yaml --output "releases/$$(date -u +%Y%m%dT%H%M%SZ)" --page

docs: .venv/.installed-docs ## The documentation as a site, build/site/index.html, strictly: no link may be dead
	@rm -rf build/site build/doctrees
	@$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/site
	@$(BIN)/python docs/check_site.py build/site

test: .venv/.installed-dev ## Lint, and beside it all tests but the slow ones
	@( $(all-lint) ) >.venv/lint.log 2>&1 & lint=$$!; failed=0; \
	trap 'kill $$lint 2>/dev/null' INT TERM; \
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not foreign" || failed=1; \
	wait $$lint || failed=1; cat .venv/lint.log; exit $$failed

test-foreign: .venv/.installed-dev smartnoise flower ## What runs in the environments of smartnoise-synth and Flower, none skipped
	@EQUISTRATA_TEST_FOREIGN=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m foreign tests/synth tests/inference tests/flows

test-slow: .venv/.installed-dev .venv/.installed-docs smartnoise flower ## The slow tests only, those of other projects' environments among them
	@$(BIN)/python -m pytest -q -m slow

test-lowest: .venv-lowest/.installed ## The tests of the rooms but the slow ones, with the lowest versions that pyproject.toml allows
	@.venv-lowest/bin/python -m pytest -q -n 2 --dist worksteal -m "not slow and not foreign" -W default $(addprefix tests/,data privacy stats synth inference eval analysis flows)

lint: .venv/.installed-dev ## Ruff, mypy, the arrows between rooms, and what is installed for nothing
	@$(all-lint)

bench: .venv/.installed-dev ## Ours against other projects' synthesizers, about an hour (ARGS=--quick: minutes)
	@$(BIN)/python -m benchmarks.field $(ARGS)

install: .venv/.installed-server ## .venv for a server that makes releases on a schedule (docs/deploy.md)

deploy: .venv/.installed-server ## Check prefect.yaml, and apply it to the server at PREFECT_API_URL
	@[ -n "$$PREFECT_API_URL" ] || { echo "PREFECT_API_URL is not set; read the worker's settings first (docs/deploy.md)"; exit 1; }
	@$(BIN)/python -m equistrata.flows.watch.deployments prefect.yaml >.venv/pools
	@$(BIN)/prefect server status --wait --timeout 300
	@for pool in $$(cat .venv/pools); do \
		$(BIN)/prefect work-pool inspect "$$pool" >/dev/null 2>&1 || $(BIN)/prefect work-pool create "$$pool" --type process || exit 1; \
	done
	@$(BIN)/prefect --no-prompt deploy --all

smartnoise: .venv/.installed ## smartnoise-synth in an environment of its own, for --synthesizer smartnoise-mst
	@$(BIN)/equistrata setup smartnoise --folder .venv-smartnoise

flower: .venv/.installed ## Flower in an environment of its own, for equistrata federate --aggregator flower
	@$(BIN)/equistrata setup flower --folder .venv-flower

# Wheels of those versions are for Python 3.11 and 3.12.
.venv-lowest/.installed: pyproject.toml tests/lowest_versions.py
	$(check-python)
	@echo "Installing the lowest versions into .venv-lowest; this takes a few minutes."
	@rm -rf .venv-lowest
	@$(PYTHON) -m venv .venv-lowest
	@$(PYTHON) tests/lowest_versions.py dev postgres >.venv-lowest/constraints.txt
	@.venv-lowest/bin/python -m pip install -qq --disable-pip-version-check --no-compile -c .venv-lowest/constraints.txt -e '.[dev,postgres]'
	@touch $@

clean: ## Remove the environment and all caches (releases stay)
	@rm -rf .venv .venv-smartnoise .venv-flower .venv-lowest .venv-peers .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Bytecode is made here, by all cores, so that commands start quickly also where PYTHONDONTWRITEBYTECODE is set.
# .venv/.unfinished marks an install under way. If it is still there at the next run, that install was interrupted, and
# the environment is made anew. The stamps are written last.
define check-python
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || \
		{ echo "equistrata needs Python 3.11 to 3.14, which $(PYTHON) is not; name one, as in: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
endef


define install
	$(check-python)
	@echo "Installing equistrata into .venv ($(1)); this takes a few minutes the first time."
	@if [ -e .venv/.unfinished ]; then rm -rf .venv; fi
	@mkdir -p .venv && touch .venv/.unfinished
	@$(PYTHON) -m venv .venv
	@$(PIP) -e '$(1)'
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
	@rm .venv/.unfinished
endef

.venv/.installed: pyproject.toml
	$(call install,.)
	@touch $@

.venv/.installed-server: pyproject.toml
	$(call install,.[postgres])
	@touch .venv/.installed $@

.venv/.installed-docs: pyproject.toml
	$(call install,.[docs])
	@touch .venv/.installed $@

.venv/.installed-dev: pyproject.toml
	$(call install,$(EXTRAS))
	@touch .venv/.installed .venv/.installed-server $@
