# `make demo`, `make quick` and `make test` need Python 3.11 or later and nothing else: each sets itself up.
.PHONY: demo test quick check unit coverage package other-python random mutants agents fuzz docs bench environments constraints clean
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
# A newer Python than the one above, if there is one: it runs the tests that need no peer.
OTHER_PYTHON ?= $(shell ls $(HOME)/.pyenv/versions/3.1[3-9]*/bin/python $(HOME)/.local/share/uv/python/*/bin/python3.1[3-9] \
	2>/dev/null | sort -V | tail -1)
OTHER_STAMP = $(if $(OTHER_PYTHON),.envs/other-python/installed)
SHELL := /bin/bash
# Compiled files are kept, also where the environment says not to: without them, the tests take half as long again.
unexport PYTHONDONTWRITEBYTECODE
.SHELLFLAGS := -o pipefail -c
BIN = .venv/bin
STAMP = .venv/installed
DEMO_STAMP = .venv/installed-for-demo
PINNED = PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
PIP = $(PINNED) $(BIN)/python -m pip
# Show how many packages were fetched: set-up takes a minute.
PROGRESS = $(PYTHON) tools/install_progress.py
# Tests write and delete many small files, which some disks take long for. Where there is room in memory, they are there,
# and those of passed tests are deleted at once.
MEMORY := $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 6000000 2>/dev/null && \
	! grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts && echo /dev/shm)
PYTEST = $(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest $(if $(MEMORY),-o tmp_path_retention_policy=failed)
# On two cores: some tests wait for a moment, for a process or for a deadline.
WORKERS = 3
FEW_FAILED = $(BIN)/python tools/failed.py 5
QUICK = not process and not slow and not peer and not soak
ENVIRONMENTS = $(patsubst tests/environments/%.txt,.envs/%/installed,$(wildcard tests/environments/*.txt)) \
	$(patsubst tests/environments/%/package.json,.envs/%/installed,$(wildcard tests/environments/*/package.json))

demo: $(DEMO_STAMP)
	@$(BIN)/python examples/demo.py

# What CI runs. Environments first: tests that need one find it ready. Setting them up waits for downloads, as the package
# does, so the checks run meanwhile. The last two do not wait for each other either.
test: $(STAMP)
	@$(MAKE) --no-print-directory --output-sync=target -j 4 check environments package $(OTHER_STAMP)
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory --output-sync=target -j 2 coverage other-python

# What to run while working.
quick: $(STAMP)
	QUICK=1 $(PYTEST) -q -n $(WORKERS) --dist worksteal -p no:pytest_cov -p no:random_order -m "$(QUICK)" $(ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

# Up to five tests that failed are run once more, one after the other. One that passes then depends on the load of the machine:
# that is a bug of the test, and the output names it, but it says nothing against the change.
unit: $(STAMP)
	@rm -rf .pytest_cache
	$(PYTEST) -n $(WORKERS) --dist worksteal || { test $$? = 1 && $(FEW_FAILED) .pytest_cache && $(PYTEST) --last-failed; }

# The packages without I/O must be covered by their own tests, every branch; the minimum is in the file.
coverage: $(STAMP)
	QUICK=1 $(PYTEST) -q -n 2 --dist worksteal -m "$(QUICK)" --cov --cov-config=tests/pure-coverage.ini \
		tests/catalog tests/skill tests/trust tests/wire tests/test_text.py tests/cli/test_lint.py

# The wheel, installed where nothing else is, must work.
package: $(STAMP)
	@rm -rf dist && $(BIN)/python -m hatchling build
	@test -x .envs/wheel/bin/python || $(PYTHON) -m venv .envs/wheel
	@$(PINNED) .envs/wheel/bin/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl
	@$(PINNED) .envs/wheel/bin/python -m pip install --quiet dist/*.whl
	$(BIN)/python tools/check_package.py .envs/wheel dist

OTHER_CACHE = .envs/other-python/pytest_cache
# Fewer examples of each property: all of them are tried above.
OTHER_PYTEST = QUICK=1 $(PYTEST:$(BIN)/%=.envs/other-python/bin/%) -q -o cache_dir=$(OTHER_CACHE) -m "$(QUICK)" $(shell cat tests/other-python.txt)
other-python: $(OTHER_STAMP)
	@if [ -n "$(OTHER_PYTHON)" ]; then rm -rf $(OTHER_CACHE); $(OTHER_PYTEST) -n 2 --dist worksteal || \
		{ test $$? = 1 && $(FEW_FAILED) $(OTHER_CACHE) && $(OTHER_PYTEST) --last-failed; }; \
	else echo "No second Python (3.13 or later) here: its tests were not run." >&2; fi

# The whole suite in random order: no test may depend on another. SEED=n repeats a run.
random: $(STAMP)
	$(BIN)/pytest -n 2 -m "not peer and not soak" --random-order $(if $(SEED),--random-order-seed=$(SEED))

# Each security line changed, one at a time; a test must notice. About an hour.
mutants: $(STAMP)
	$(BIN)/python -m tools.mutants $(ARGS)

# The newest versions of the agent clients that the tests run, in a temporary folder: what will break next?
agents: $(STAMP)
	$(BIN)/python -m tools.agents --newest $(ARGS)

# FUZZ_SECONDS=600 make fuzz
fuzz: $(STAMP)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BIN)/pytest -q -n 2 tests/fuzz

# Write what is generated: docs/reference, the complexity budget in docs/architecture.md, the pictures of the README.
docs: $(STAMP)
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.budget --write
	$(BIN)/python -m tools.pictures

# Takes about an hour; `python -m benchmarks --help` has the options for less.
bench: $(STAMP)
	$(BIN)/python -m benchmarks --write $(BENCH)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Skillwire needs Python 3.11 or later; install it, or run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

# Dependency groups need pip 25.1 or later.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up .venv for development, once: about a minute." >&2
	@$(PIP) install --quiet --upgrade 'pip>=25.1'
	@$(PIP) install --progress-bar off --editable . --group dev | $(PROGRESS)
	@touch $@

# Only what a user needs, so that the demo starts soon.
$(DEMO_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up .venv, once: about half a minute." >&2
	@$(PIP) install --progress-bar off --editable . | $(PROGRESS)
	@touch $@

# An environment for tests that need packages of their own: tests/environments/NAME.txt becomes .envs/NAME, and so does
# tests/environments/NAME/package.json, with packages of npm that run no install scripts. A test finds it with
# `environment("NAME")` or `node_environment("NAME")` of tests/environments.py, which skip when it is not there.
environments:
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j 2) $(ENVIRONMENTS) .envs/shells .envs/services .envs/bubblewrap

# Programs for tests, unpacked from their Debian packages: no root is needed. Shells for completion; bubblewrap for the sandbox; nginx, PgBouncer and systemd for
# docs/operate.md. Where there are no such packages, these tests are skipped and say so; in CI, those of the services fail.
.envs/shells: PACKAGES = zsh zsh-common fish fish-common libpcre2-32-0
.envs/services: PACKAGES = nginx nginx-common pgbouncer libevent-2.1-7 libc-ares2 systemd libsystemd-shared \
	libapparmor1 libip4tc2 libkmod2
.envs/bubblewrap: PACKAGES = bubblewrap
.envs/shells .envs/services .envs/bubblewrap:
	@rm -rf $@.new && mkdir -p $@.new && cd $@.new && { { apt-get download $(PACKAGES) || { apt-get update && apt-get download $(PACKAGES); }; } && \
		for package in *.deb; do dpkg-deb -x $$package . ; done && if test -d etc/fish; then mkdir usr/etc && ln -s ../../etc/fish usr/etc/fish; fi && \
		rm *.deb && mv ../$(@F).new ../$(@F); } > ../$(@F).log 2>&1 \
		|| echo "No Debian packages here for $@: see $@.log" >&2

# A list marked as complete needs no resolution, and packages that are imported once need no compilation.
.envs/%/installed: tests/environments/%.txt
	@echo "Setting up .envs/$*, once ..." >&2
	@rm -rf .envs/$* && $(PYTHON) -m venv .envs/$*
	@PIP_DISABLE_PIP_VERSION_CHECK=1 .envs/$*/bin/python -m pip install --progress-bar off \
		$$(grep -q '^# Complete' $< && echo --no-deps --no-compile) --requirement $< | $(PROGRESS)
	@touch $@

.envs/%/installed: tests/environments/%/package.json tests/environments/%/package-lock.json | $(STAMP)
	@echo "Setting up .envs/$*, once ..." >&2
	@rm -rf .envs/$* && mkdir -p .envs && cp -r tests/environments/$* .envs/$*
	@cd .envs/$* && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-fund --no-audit --loglevel=error
	@touch $@

.envs/other-python/installed: pyproject.toml constraints.txt
	@echo "Setting up .envs/other-python, once ..." >&2
	@rm -rf .envs/other-python && $(OTHER_PYTHON) -m venv .envs/other-python
	@$(PINNED) .envs/other-python/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(PINNED) .envs/other-python/bin/python -m pip install --progress-bar off --editable . --group unit | $(PROGRESS)
	@touch $@

# Pin what a fresh resolution gives. Look at the difference before you commit it.
constraints:
	rm -rf .venv && $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	(echo '# Every version that `make` installs. Made by `make constraints`.'; \
	 $(BIN)/python -m pip freeze --all --exclude-editable | sort -f) > constraints.txt

clean:
	rm -rf .venv .envs .node dist build
