# `make demo` and `make test` need Python 3.11 or later and nothing else: each sets itself up.
.PHONY: demo test check unit bench constraints clean
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN = .venv/bin
STAMP = .venv/installed
DEMO_STAMP = .venv/installed-for-demo
PIP = PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip

demo: $(DEMO_STAMP)
	@$(BIN)/python examples/demo.py

test: check unit

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

unit: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal

# Takes about an hour; `python -m benchmarks --help` has the options for less.
bench: $(STAMP)
	$(BIN)/python -m benchmarks --write $(BENCH)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Skillwire needs Python 3.11 or later; install it, or run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up .venv for development (once) ..." >&2
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $@

# What a user needs and no more, so that the demo starts soon.
$(DEMO_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up .venv (once) ..." >&2
	@$(PIP) install --quiet --editable .
	@touch $@

# Pin what a fresh resolution gives. Look at the difference before you commit it.
constraints:
	rm -rf .venv && $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --editable '.[dev]' hatchling
	(echo '# Every version that `make` installs. Made by `make constraints`.'; \
	 $(BIN)/python -m pip freeze --exclude-editable | sort -f) > constraints.txt

clean:
	rm -rf .venv .node dist build
