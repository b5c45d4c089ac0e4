# The one door for developers. `make` or `make help` lists what it can do.
# Needs python3 (3.11 or later, with venv) and make; the cluster tests and the bench need go too, or KUBEBUILDER_ASSETS.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
CONTROL_PLANE := PYTHONPATH=tests $(RUN) -m control_plane.build

# Extra words for the programs behind the targets: make test ARGS='-k queue', make bench ARGS='--nodes 1000'.
ARGS ?=

.PHONY: help install demo test check control-plane cluster-test bench clean

help: ## list the targets
	@echo "usage: make TARGET [ARGS='...']"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1	\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

install: $(READY) ## put Berth and its tools into .venv

# Done again only when the project's definition or the pinned versions change.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: install Python 3.11 or later, or name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("make: Berth needs Python 3.11 or later, $(PYTHON) is %d.%d: install a newer one, or name one: make PYTHON=/path/to/python3" % v[:2])'
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt setuptools
	@$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(READY) ## watch Berth place pods on an embedded cluster (half a minute)
	@$(VENV)/bin/berth demo $(ARGS)

test: $(READY) ## run the tests that need nothing but Python
	$(RUN) -m pytest $(ARGS)

check: $(READY) ## ruff, mypy --strict, import-linter
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

control-plane: $(READY) ## get etcd, kube-apiserver, kube-scheduler and kubectl (once; minutes)
	@$(CONTROL_PLANE)

cluster-test: $(READY) ## run the end-to-end tests on a real kube-apiserver
	@$(CONTROL_PLANE)
	$(RUN) -m pytest -m cluster $(ARGS)

bench: $(READY) ## pods/s of Berth, kube-scheduler and a client that only binds
	@$(CONTROL_PLANE) --with-scheduler
	@PYTHONPATH=tests $(RUN) -m bench.cluster $(ARGS)

clean: ## remove what the other targets made here (the control plane's cache stays)
	rm -rf $(VENV) build dist operator/*.egg-info bench/results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find operator tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
