# `make demo`, `make quick`, `make test` and `make peers` need Python 3.11 or later and nothing else: each sets itself up.
.PHONY: demo test peers history quick check unit package newest-python random mutants agents fuzz docs bench \
	test-environments peer-environments requirements clean
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
# Python keeps its compiled files even where the environment says not to: without them the tests take half as long again.
unexport PYTHONDONTWRITEBYTECODE

# The Pythons of this machine, oldest first. The oldest runs everything, the newest whatever does not need a process.
ifndef PYTHON
PYTHONS := $(shell for python in python3 python3.{11..14} ~/.pyenv/versions/3.*/bin/python ~/.local/share/uv/python/*/bin/python3 \
	/opt/hostedtoolcache/Python/3.*/*/bin/python; do \
	$$python -c 'import sys; v = sys.version_info; v >= (3, 11) and print(v[1], sys.executable)' 2>/dev/null || true; \
	done | sort -s -n -k 1,1 -u | cut -d ' ' -f 2)
PYTHON := $(firstword $(PYTHONS))
NEWEST_PYTHON := $(filter-out $(PYTHON),$(lastword $(PYTHONS)))
endif
export PYTHON NEWEST_PYTHON

BIN = .venv/bin
STAMP = .venv/installed
DEMO_STAMP = .venv/installed-for-demo
NEWEST = $(if $(NEWEST_PYTHON),.envs/newest-python,.venv)
UV = .envs/uv/bin/uv
INSTALL = $(UV) pip install --quiet --require-hashes
INSTALL_OURS = $(UV) pip install --quiet --no-deps --no-build-isolation

# Tests write and delete many small files, which is slow on some disks. Where memory has room, they live there,
# and those of passed tests are deleted at once.
MEMORY := $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 6000000 2>/dev/null && \
	! grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts && echo /dev/shm)
PYTEST_OPTIONS = $(if $(MEMORY),-o tmp_path_retention_policy=failed)
PYTEST = $(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest $(PYTEST_OPTIONS)
# One more than there are cores: some tests wait for a process or for a deadline.
WORKERS = 3
QUICK = not process and not slow and not peer
TIMED = TIMEFORMAT='make $@: %1lR, %0U + %0S CPU seconds (user + system)'; time

demo: $(DEMO_STAMP)
	@$(BIN)/python examples/demo.py

# Every property of ours.
test:
	@$(TIMED) { $(MAKE) --no-print-directory --output-sync=target -j 4 check test-environments package $(NEWEST)/installed && \
		$(MAKE) --no-print-directory unit && $(MAKE) --no-print-directory newest-python; }

# That programs of others work with ours: agent clients, frameworks, official judges, other SDKs, nginx, PgBouncer, systemd.
peers:
	@$(TIMED) { $(MAKE) --no-print-directory -j 4 peer-environments && \
		HISTORY_SECONDS=$${HISTORY_SECONDS:-120} $(PYTEST) -q -n 2 --dist worksteal -m peer $(ARGS); }

# An hour of random faults: three replicas of a registry, kills, stops, lost connections.
history: $(STAMP)
	HISTORY_SECONDS=$${HISTORY_SECONDS:-3600} $(PYTEST) -q tests/registry/test_history.py

# What to run while working.
quick: $(STAMP)
	QUICK=1 $(PYTEST) -q -n $(WORKERS) --dist worksteal -p no:pytest_cov -p no:random_order -m "$(QUICK)" $(ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

unit: $(STAMP)
	$(PYTEST) -q -n $(WORKERS) --dist worksteal -p no:pytest_cov -p no:random_order -m "not peer" $(ARGS)

# The wheel, installed where nothing else is, must work.
package: $(STAMP)
	@rm -rf dist && $(BIN)/python -m hatchling build
	@$(UV) venv --quiet --clear --python $(PYTHON) .envs/wheel
	@$(INSTALL) --python .envs/wheel/bin/python --requirement requirements/user.txt
	@$(UV) pip install --quiet --no-deps --python .envs/wheel/bin/python dist/*.whl
	$(BIN)/python tools/check_package.py .envs/wheel dist

# The tests that start no process, on the newest Python, with fewer examples of each property. The packages without I/O must be
# covered by their own tests, every branch; the minimum is in the file.
NEWEST_PYTEST = QUICK=1 $(if $(MEMORY),TMPDIR=$(MEMORY)) $(NEWEST)/bin/python -m pytest $(PYTEST_OPTIONS) -q -n 2 --dist worksteal -m "$(QUICK)"
newest-python: $(NEWEST)/installed
	@test -n "$(NEWEST_PYTHON)" || { echo "Only one supported Python was found here: no test ran on a second one." >&2; test -z "$$CI"; }
	$(NEWEST_PYTEST) --cov --cov-config=tests/pure-coverage.ini \
		tests/catalog tests/skill tests/trust tests/wire tests/test_text.py tests/cli/test_lint.py
	$(NEWEST_PYTEST) -p no:pytest_cov tests/test_files.py tests/sources tests/host tests/server

# The suite in random order: no test may depend on another. SEED=n repeats a run.
random: $(STAMP)
	$(PYTEST) -q -n 2 -m "not peer" --random-order $(if $(SEED),--random-order-seed=$(SEED))

# Each security line changed, one at a time; a test must notice. About an hour.
mutants: $(STAMP)
	$(BIN)/python -m tools.mutants $(ARGS)

# The newest versions of the agent clients that the tests run, in a temporary folder: what will break next?
agents: $(STAMP)
	$(BIN)/python -m tools.agents --newest $(ARGS)

# FUZZ_SECONDS=600 make fuzz
fuzz: $(STAMP)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(PYTEST) -q -n 2 tests/fuzz

# Generate docs/reference and the pictures of the README.
docs: $(STAMP)
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.pictures

# Takes about an hour; `python -m benchmarks --help` has the options for less.
bench: $(STAMP)
	$(PYTEST) -q -n 2 benchmarks/tests
	$(BIN)/python -m benchmarks.input_run
	$(BIN)/python -m benchmarks --write $(BENCH)

# Environments. `tests/environments/NAME.txt` becomes `.envs/NAME`, and so does `tests/environments/NAME/package.json`, with npm
# packages whose install scripts do not run. A test finds one with `environment("NAME")` or `node_environment("NAME")` of
# tests/environments.py.
test-environments: .envs/browser/installed .envs/semantic/installed .envs/shells .envs/bubblewrap
peer-environments: test-environments .envs/agents/installed .envs/frameworks/installed .envs/model-signing/installed .envs/services

.envs/uv/installed: tests/environments/uv.txt
	@test -n "$(PYTHON)" || { echo "Skillwire needs Python 3.11 or later; install it, or run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@rm -rf .envs/uv && $(PYTHON) -m venv .envs/uv
	@PIP_DISABLE_PIP_VERSION_CHECK=1 .envs/uv/bin/python -m pip install --quiet --require-hashes --requirement $<
	@touch $@

$(BIN)/python: | .envs/uv/installed
	@$(UV) venv --quiet --clear --python $(PYTHON) .venv

$(STAMP): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Setting up .venv for development, once ..." >&2
	@$(INSTALL) --python $(BIN)/python --requirement requirements/dev.txt
	@$(INSTALL_OURS) --python $(BIN)/python --editable .
	@touch $@

# Only what a user needs, so that the demo starts soon.
$(DEMO_STAMP): requirements/user.txt pyproject.toml | $(BIN)/python
	@echo "Setting up .venv, once ..." >&2
	@$(INSTALL) --python $(BIN)/python --requirement requirements/user.txt
	@$(INSTALL_OURS) --python $(BIN)/python --editable .
	@touch $@

.envs/newest-python/installed: requirements/unit.txt pyproject.toml | .envs/uv/installed
	@echo "Setting up .envs/newest-python, once ..." >&2
	@$(UV) venv --quiet --clear --python $(NEWEST_PYTHON) .envs/newest-python
	@$(INSTALL) --python .envs/newest-python/bin/python --requirement requirements/unit.txt
	@$(INSTALL_OURS) --python .envs/newest-python/bin/python --editable .
	@touch $@

# Every package is listed, so nothing is resolved.
.envs/%/installed: tests/environments/%.txt | .envs/uv/installed
	@echo "Setting up .envs/$*, once ..." >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) .envs/$*
	@$(INSTALL) --no-deps --python .envs/$*/bin/python --requirement $<
	@touch $@

.envs/%/installed: tests/environments/%/package.json tests/environments/%/package-lock.json | $(STAMP)
	@echo "Setting up .envs/$*, once ..." >&2
	@rm -rf .envs/$* && mkdir -p .envs && cp -r tests/environments/$* .envs/$*
	@cd .envs/$* && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-fund --no-audit --loglevel=error
	@touch $@

# Programs for tests, unpacked from their Debian packages: no root is needed. Where there are no such packages, these tests are
# skipped and say so; in CI they fail.
.envs/shells: PACKAGES = zsh zsh-common fish fish-common libpcre2-32-0
.envs/services: PACKAGES = nginx nginx-common pgbouncer libevent-2.1-7 libc-ares2 systemd libsystemd-shared \
	libapparmor1 libip4tc2 libkmod2
.envs/bubblewrap: PACKAGES = bubblewrap
.envs/shells .envs/services .envs/bubblewrap:
	@rm -rf $@.new && mkdir -p $@.new && cd $@.new && { { apt-get download $(PACKAGES) || { apt-get update && apt-get download $(PACKAGES); }; } && \
		for package in *.deb; do dpkg-deb -x $$package . ; done && if test -d etc/fish; then mkdir usr/etc && ln -s ../../etc/fish usr/etc/fish; fi && \
		rm *.deb && mv ../$(@F).new ../$(@F); } > ../$(@F).log 2>&1 \
		|| echo "No Debian packages here for $@: see $@.log" >&2

# Resolve and pin all versions again. Look at the difference before you commit it.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links
requirements: .envs/uv/installed
	$(COMPILE) --upgrade --group dev --output-file requirements/dev.txt pyproject.toml
	$(COMPILE) --group unit --constraint requirements/dev.txt --output-file requirements/unit.txt pyproject.toml
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/user.txt pyproject.toml
	for list in tests/environments/*.in; do \
		$(COMPILE) $$(grep -q '^# Complete' $$list && echo --no-deps) --output-file $${list%.in}.txt $$list || exit 1; done

clean:
	rm -rf .venv .envs dist build
