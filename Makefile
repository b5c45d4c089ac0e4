# All commands for developers. `make` or `make help` lists what it can do.
# Needs python3 (3.11 or later, with venv) and make; the cluster tests and the cluster's bench need go too, or
# KUBEBUILDER_ASSETS, and the oracle needs go.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
CONTROL_PLANE := PYTHONPATH=tests $(RUN) -m control_plane.build
ORACLE := PYTHONPATH=tests $(RUN) -m conformance.oracle

# Extra words for the programs behind the targets: make test ARGS='-k queue', make bench-cluster ARGS='--nodes 1000'.
ARGS ?=

# How many processes run tests: auto is one a core, 0 runs all tests in one, as -s and a debugger want it. Tests of one
# file are done before the other processes would have started.
JOBS ?= $(if $(filter 1,$(words $(filter tests/%,$(ARGS)))),$(if $(findstring .py,$(filter tests/%,$(ARGS))),0,auto),auto)
PYTEST = $(RUN) -m pytest -n '$(JOBS)' --dist worksteal

# Modules are compiled once, and not by each of the many processes that tests start, whatever the environment says.
test test-all cluster-test page-test: export PYTHONDONTWRITEBYTECODE =

# What is drawn from a seed is drawn again from it: the order of sets must not change it from run to run.
export PYTHONHASHSEED ?= 0

# How many random sequences of events are simulated.
SEEDS ?= 200

# How many planted bugs are tried, drawn by SEED; all of them without it.
SAMPLE ?=

# What fresh vectors and the sample are drawn by; without a SEED one is chosen and printed.
SEED ?=
COUNT ?= 150
SIZE ?= 10
NOMINATED ?=
OUT ?=

.PHONY: help install demo test test-all check docs site lock sbom control-plane cluster-test page-test screenshots oracle vectors device-vectors simulate mutations soak clean
.PHONY: bench bench-engine bench-expressions bench-rollouts bench-storms bench-loop-steps bench-explain-steps bench-cluster bench-scale bench-takeover bench-floods bench-writes bench-simulate bench-page

help: ## list the targets
	@echo "usage: make TARGET [ARGS='...']"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1	\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do printf '  %-17s %s\n' "$$name" "$$text"; done

install: $(READY) ## put Berth and its tools into .venv

# Done again only when the project's definition or the pinned versions change.
$(READY): pyproject.toml setup.py constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: install Python 3.11 or later, or name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("make: Berth needs Python 3.11 or later, $(PYTHON) is %d.%d: install a newer one, or name one: make PYTHON=/path/to/python3" % v[:2])'
	@echo "installing into $(VENV): some 60 packages, a minute or two"
	@rm -rf operator/*.egg-info
	@echo "  making an empty environment"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(RUN) tools/install.py --constraint constraints.txt setuptools
	@$(RUN) tools/install.py --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(READY) ## watch Berth place pods on an embedded cluster (half a minute)
	@$(VENV)/bin/berth demo $(ARGS)

test: $(READY) ## run the tests that need nothing but Python: make test [ARGS='tests/engine -k cache'] [JOBS=0]
	$(PYTEST) $(ARGS)

test-all: $(READY) ## the same with the slow ones, and with all examples of property tests: what CI runs
	$(PYTEST) -m 'not cluster and not page' --hypothesis-profile=full $(ARGS)

check: $(READY) ## ruff, mypy --strict, import-linter
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

docs: $(READY) ## make what is made from the code: configuration.md, metrics.md, policy-fields.md, reasons.md, the CRD of policies
	$(RUN) -m berth.configuration.pages > docs/configuration.md
	$(RUN) -m berth.serving.metrics_page > docs/metrics.md
	$(RUN) -m berth.policy.fields.page > docs/policy-fields.md
	$(RUN) -m berth.explain.reasons_page > docs/reasons.md
	$(RUN) -m berth.policy.fields.crd > crds/schedulingpolicies.berth.dev.yaml
	@$(MAKE) --no-print-directory chart

site: $(VENV)/.site ## the documentation as a site, in build/site; every link is checked (make site ARGS=--serve to read it)
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs $(if $(filter --serve,$(ARGS)),serve,build --strict --quiet)
	@echo "the site is in build/site"

$(VENV)/.site: $(READY)
	@echo "installing what makes the site into $(VENV)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[site]'
	@touch $@

# The image and a cluster of this machine. Other names and programs: make image IMAGE=... ENGINE=podman.
.PHONY: image load wheel
CLUSTER ?=

image: ## build the image with docker or podman: make image [ENGINE=podman] [IMAGE=localhost/berth:0.1.0]
	@$(PYTHON) tools/image.py build

load: ## load the image into kind, k3d or minikube: make load [CLUSTER=kind:dev]
	@$(PYTHON) tools/image.py load $(CLUSTER)

wheel: $(READY) ## build the wheel into dist/
	$(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation --wheel-dir dist .

.PHONY: krew
krew: wheel ## pack `kubectl berth` for krew into dist/: the archive, and the manifest that names its hash
	@$(RUN) tools/krew.py dist

lock: $(READY) ## write requirements.lock: what the image installs, with hashes (asks the package index)
	$(RUN) tools/lock.py

sbom: $(READY) ## print what Berth is made of, as CycloneDX JSON; the image has its own in /opt/berth/sbom.cdx.json
	@$(RUN) tools/sbom.py

control-plane: $(READY) ## get etcd, kube-apiserver, kube-scheduler and kubectl (once; minutes)
	@$(CONTROL_PLANE)

# Each folder has a control plane of its own, and stays in one process with it: starting one takes long, and it is busy
# even when nobody asks it for anything.
cluster-test: JOBS = 2
cluster-test: $(READY) ## run the tests that need a real kube-apiserver, or real kube-scheduler code
	@$(CONTROL_PLANE)
	@$(ORACLE).build --optional
	$(RUN) -m pytest -m cluster -n '$(JOBS)' --dist loadscope --no-loadscope-reorder $(ARGS)

page-test: $(READY) ## look at the page in Chromium, which is installed if it may be: make page-test [ARGS='-k search']
	@PYTHONPATH=tests $(RUN) -m page.chromium
	$(RUN) -m pytest -m page tests/page $(ARGS)

screenshots: $(READY) ## take the pictures of the page in docs/images
	@PYTHONPATH=tests $(RUN) -m page.chromium
	@PYTHONPATH=tests $(RUN) -m page.screenshots docs/images

oracle: $(READY) ## build the oracles from kube-scheduler's own code (once; minutes)
	@$(ORACLE).build

.PHONY: api-fields
api-fields: $(READY) ## the fields of built-in kinds, for the embedded API server, from Kubernetes' Go types (needs go; after a new version)
	cd tests/control_plane && go run -mod=readonly ./api_fields > ../../operator/berth/sim/builtin_kinds/api_fields.json
	cd tests/control_plane && go run -mod=readonly ./api_bodies $$(../../$(RUN) -c 'from berth.sim.builtin_kinds.api_fields import field_table; print(*field_table().kinds)') | gzip -9n > ../sim_http/protobuf_bodies.jsonl.gz

.PHONY: chart
chart: ## copy the kinds of crds/ into the Helm chart
	cp crds/schedulingpolicies.berth.dev.yaml charts/berth/files/
	cp crds/clusterkopfpeerings.kopf.dev.yaml charts/berth/crds/

vectors: $(READY) ## make fresh vectors and judge them: make vectors [SEED=...] [COUNT=150] [SIZE=10] [NOMINATED=1] [OUT=FILE]
	@$(ORACLE).vectors --count '$(COUNT)' --size '$(SIZE)' $(if $(SEED),--seed='$(SEED)') $(if $(NOMINATED),--nominated) $(if $(OUT),--out='$(OUT)')

device-vectors: $(READY) ## the same for pods that claim devices, as the engine sees them: make device-vectors [SEED=...] [ARGS='--count 300 --out FILE']
	@$(ORACLE).device_vectors $(if $(SEED),--seed='$(SEED)') $(ARGS)

simulate: $(READY) ## the scheduler on virtual time, with faults by seed: make simulate [SEEDS=200] [ARGS='--seed 7 --steps']
	@PYTHONPATH=tests $(RUN) -m simulation --seeds '$(SEEDS)' $(ARGS)

mutations: $(READY) ## plant bugs one at a time in a copy, and see that tests notice: make mutations [SAMPLE=12] [SEED=7] [ARGS='--only outbox']
	@PYTHONPATH=tests $(RUN) -m mutations $(if $(SAMPLE),--sample '$(SAMPLE)') $(if $(SEED),--seed '$(SEED)') $(ARGS)

soak: $(READY) ## an hour of production on virtual time at 1,000 nodes (minutes): make soak [ARGS='--minutes 10 --nodes 200']
	@PYTHONPATH=tests $(RUN) -m simulation.soak $(ARGS)

bench: $(READY) ## bench-engine, bench-expressions and bench-rollouts, then bench-cluster, which gets the ARGS
	@$(MAKE) --no-print-directory bench-engine bench-expressions bench-rollouts ARGS=
	@$(MAKE) --no-print-directory bench-cluster

# Figures of one core: numpy must not start threads.
bench-engine bench-expressions bench-rollouts bench-storms bench-loop-steps bench-explain-steps bench-floods: export OMP_NUM_THREADS = 1
bench-engine bench-expressions bench-rollouts bench-storms bench-loop-steps bench-explain-steps bench-floods: export OPENBLAS_NUM_THREADS = 1

bench-engine: $(READY) ## decision times at 1,000, 5,000 and 20,000 nodes, by what pods ask for
	@$(RUN) -m bench.engine $(ARGS)

bench-expressions: $(READY) ## what expressions in a policy add to a decision, by what they read
	@$(RUN) -m bench.expressions $(ARGS)

bench-rollouts: $(READY) ## decision times and memory under endless rollouts of 2,000 Deployments
	@PYTHONPATH=tests $(RUN) -m bench.rollouts $(ARGS)

bench-storms: $(READY) ## what one event costs where thousands of pods wait: make bench-storms [ARGS='--nodes 500']
	@PYTHONPATH=tests $(RUN) -m bench.storms $(ARGS)

bench-loop-steps: $(READY) ## the longest step of the event loop at 5,000 nodes and 50,000 pods: make bench-loop-steps [ARGS='--nodes 500']
	@PYTHONPATH=tests $(RUN) -m bench.loop_steps $(ARGS)

bench-explain-steps: $(READY) ## the same while explanations are asked for: make bench-explain-steps [ARGS='--nodes 500']
	@PYTHONPATH=tests $(RUN) -m bench.explain_steps $(ARGS)

bench-floods: $(READY) ## what one user can do to the others by multiplying something: make bench-floods [ARGS='--nodes 500 --many 100']
	@PYTHONPATH=tests $(RUN) -m bench.floods $(ARGS)

bench-simulate: $(READY) ## how long `berth simulate` takes at 5,000 nodes and 10,000 pods: make bench-simulate [ARGS='--nodes 500 --pods 1000']
	@PYTHONPATH=tests $(RUN) -m bench.simulate $(ARGS)

bench-page: $(READY) ## how long the page takes in a browser at 5,000 nodes: make bench-page [ARGS='--nodes 500']
	@PYTHONPATH=tests $(RUN) -m page.chromium
	@PYTHONPATH=tests $(RUN) -m bench.page $(ARGS)

bench-cluster: $(READY) ## Kubernetes' own workloads with kube-scheduler and Berth: make bench-cluster [ARGS='--help']
	@$(CONTROL_PLANE) --with-scheduler
	@PYTHONPATH=tests $(RUN) -m bench.cluster $(ARGS)

bench-scale: $(READY) ## how Berth grows to 10,000 nodes and 100,000 pods on a real API server: make bench-scale [ARGS='--nodes 1000']
	@$(CONTROL_PLANE) --with-scheduler
	@PYTHONPATH=tests $(RUN) -m bench.scale $(ARGS)

bench-writes: $(READY) ## what one write costs the event loop, by transport: make bench-writes [ARGS='--at-once 8']
	@$(CONTROL_PLANE)
	@PYTHONPATH=tests $(RUN) -m bench.writes $(ARGS)

bench-takeover: $(READY) ## how long nobody schedules when a leader dies, beside kube-scheduler, and after a cold start
	@$(CONTROL_PLANE) --with-scheduler
	@PYTHONPATH=tests $(RUN) -m bench.takeover $(ARGS)

clean: ## remove what the other targets made here (what is built outside, in the cache, stays)
	rm -rf $(VENV) build dist operator/*.egg-info bench/results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find operator tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
