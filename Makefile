# Two commands matter: `make try` runs the main job, `make test` runs the tests.
# Both set up everything they need from Python 3.11+ (with venv), git and make alone.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help venv try test soak check format bench lock clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "keeps needs Python 3.11 or newer; run: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "this Python has no venv module; on Debian or Ubuntu: apt-get install python3-venv"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --require-hashes requirements.txt requirements-uv.txt
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

venv: $(STAMP) ## Make .venv with every extra

try: $(STAMP) ## Run the main job: import, ask, correct, look back, forget
	$(BIN)/keeps try

test: $(STAMP) ## Run the tests (all but soak)
	$(BIN)/python -m pytest -m "not soak"

soak: $(STAMP) ## Run the tests that take minutes
	$(BIN)/python -m pytest -m soak

check: $(STAMP) ## Format, lint, types, import contracts, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not soak"

format: $(STAMP) ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Measure quality and speed; JSON in bench-out/
	$(BIN)/python -m evals.bench

lock: $(STAMP) ## Rewrite the lock after a change in pyproject.toml
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url pyproject.toml --all-extras --group dev -o requirements.txt
	echo uv | $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url - -o requirements-uv.txt

clean: ## Remove what the build made
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis bench-out
