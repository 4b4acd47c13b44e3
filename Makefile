# The one entry point: CI, pre-commit and people call these targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Unless compiled tests are kept, each run compiles them and rewrites their assertions, for 7 s. The
# plugin of schemathesis imports for another; only integration tests use it.
UNIT := env -u PYTHONDONTWRITEBYTECODE $(PYTEST) -q -p no:schemathesis tests/unit tools/tests
MEASURED := $(BIN)/python -m slipcover --branch --json --out .cache/coverage.json --source cluster,deployments,backends,tools/manta_tools
# uv leaves compiling to the first import. A server is ten processes that import Ray: compiled ahead,
# it starts in half the time and loads a model in a third. Files of other Pythons do not compile.
# No server imports mypy or transformers.
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '/(mypy|mypyc|setuptools|transformers)/' $(VENV)/lib manta cluster deployments backends tools/manta_tools >/dev/null 2>&1 || true

# The tools with what their tests need.
TOOLS := ./tools[analyze,genai]

CHECKOV_VERSION := 3.3.30
MUTMUT_VERSION := 3.8.1
KSERVE_VERSION := 0.20.0

.PHONY: help compiled compiled-for-tests unit-compiled compare-forms wheel wheel-test install serve test check lint types unit unit-measured unit-reached frameworks integration sequences stores faults test-times test-all conformance bench bench-perf bench-backends bench-stores bench-on-demand simulate demo-models demo-frameworks docs interop-tools store-tools image-tools kserve-client fuzz mutants lanes chaos attack audit k8s-check clean

help:
	@echo "make serve    install, build the demo repository, serve it (HTTP 8000, gRPC 8001, metrics 8002)"
	@echo "make test     install what tests need and run all but the longest, and a minute of chaos"
	@echo "make frameworks  the tests that import a large framework, TensorFlow's 1.4 GB installed for them; part of make test"
	@echo "make demo-frameworks  the digits in every framework, as a repository; their accuracies side by side"
	@echo "make test-times  what the servers of the last make test took to start and end, by module"
	@echo "make test-all all tests as one: also the longest, faults under load, 15 minutes of chaos, the wheel, fuzzing, and conformance where sources are named"
	@echo "make check    lint, types, import contracts and the unit tests that a change can reach, but for slow ones, with a quarter of the generated examples"
	@echo "make conformance  the Python examples of TRITON_CLIENT_SRC and of PYTHON_BACKEND_SRC, and the tests"
	@echo "                  of TRITON_SERVER_SRC, against Manta"
	@echo "make stores   model repositories in object stores, against emulators on loopback"
	@echo "make k8s-check  Kubernetes manifests, Helm chart and Containerfiles, rendered and checked without a cluster"
	@echo "make sequences  10,000 sequences with cancels, idling and a lost instance"
	@echo "make faults   what dies or hangs under load costs no answer"
	@echo "make chaos    faults at random under mixed load on two nodes; CHAOS=\"--minutes 30 --seed 1 2 3\" chooses"
	@echo "make attack   attacks a server on loopback; ATTACK=\"--quick\" or \"--only bombs\" chooses"
	@echo "make audit    pins and installed versions against known vulnerabilities, and a bill of materials in dist/"
	@echo "make fuzz     coverage-guided fuzzing of all parsers, FUZZ_SECONDS for each (60)"
	@echo "make mutants  200 wrong programs of each pure room, of which unit tests must notice 85 %; MUTANTS=\"--room access --count 40\""
	@echo "make bench    Manta and Triton side by side under perf_analyzer"
	@echo "make bench-perf  manta perf and perf_analyzer in turn at one server; PERF=\"--rounds 2\" chooses"
	@echo "make bench-backends  every framework behind the server beside its own bare loop; BACKENDS=\"--only fil --rounds 1\" chooses"
	@echo "make bench-stores  downloads beside curl's, polls of 10,000 models and the controller's memory; STORES=\"--only polls\" chooses"
	@echo "make bench-on-demand 1,000 models on a server that keeps 50, under Zipf-distributed requests; ON_DEMAND=\"--requests 1000\""
	@echo "make simulate what the control plane decides in a cluster of 1,000 nodes, without Ray; SCALE=\"--nodes 4000\" chooses"
	@echo "make lanes    two nodes in network namespaces: throughput, delay and loss, a partition; LANES=\"--only loss\" chooses"
	@echo "make docs     the documentation as a site with a search in dist/site; DOCS=serve shows it on port 8080 while it is edited"
	@echo "make install  the virtual environment with Manta, its CPU extras and the tools, and 'make compiled' in the background (not with COMPILED=0)"
	@echo "make compiled compile the request path with mypyc; until a source changes servers run that"
	@echo "make wheel    wheels of Manta and of the tools in dist/, compiled if there is a C compiler; make wheel-test installs them elsewhere and serves"
	@echo "make compare-forms  the same requests to a plain and a compiled server"

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.installed: $(BIN)/uv pyproject.toml tools/pyproject.toml constraints.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[cpu,demo,compile]' --editable ./tools --constraint constraints.txt
	$(COMPILE)
	@touch $@

# pip takes PyTorch's build for CPUs where its find-links have one, and uv leaves what is there. From
# PyPI it would be the one that needs 3.8 GB of CUDA, which serves, too.
$(VENV)/.installed-torch: $(BIN)/uv constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed $(VENV)/.installed-torch
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[cpu,demo,compile,test,lint]' --editable '$(TOOLS)' --constraint constraints.txt
	$(COMPILE)
	@touch $@

# The tools' commands with the server's: after make serve, manta perf.
# Compiles behind everything else, unless COMPILED=0; see ADR 10.
install: $(VENV)/.installed
	@$(BIN)/python scripts/compile_shim.py
	$(if $(filter 0,$(COMPILED)),,@$(BIN)/python scripts/compile.py --background)

# Servers and tests run compiled from then on, until a source changes;
# MANTA_COMPILED=0 has them run plain.
compiled: $(VENV)/.installed
	$(BIN)/python scripts/compile.py

# Beside the tests that run plain, behind them. In CI a machine without a compiler is an error.
compiled-for-tests: $(VENV)/.installed
	nice -n 10 $(BIN)/python scripts/compile.py $(if $(CI),,--if-possible)

# The unit tests once more, against the compiled form.
unit-compiled: $(VENV)/.installed-test compiled
	MANTA_COMPILED=1 $(UNIT) --numprocesses=2 --dist=loadfile --no-loadscope-reorder

# The same requests to a plain and a compiled server: answers must be the same to the byte.
compare-forms: $(VENV)/.installed-test compiled
	$(BIN)/python -m tests.forms

# For this Python and this kind of machine; without a C compiler or with MANTA_WHEEL=plain, for any.
wheel: $(BIN)/uv
	rm -f dist/manta_serve-*.whl dist/manta_tools-*.whl
	$(BIN)/uv build --wheel --python $(BIN)/python --build-constraints constraints.txt --out-dir dist
	$(BIN)/uv build --wheel --python $(BIN)/python --build-constraints constraints.txt --out-dir dist tools

# Installed into an empty environment, from where it serves the demo repository; then the tools beside it.
wheel-test: $(VENV)/.installed-test demo-models wheel
	$(PYTEST) -q tests/wheel

demo-models: $(VENV)/.installed
	$(BIN)/python scripts/make_demo_models.py --output configs/models

# One classifier of digits for each framework.
demo-frameworks: $(VENV)/.installed-frameworks
	$(BIN)/python scripts/make_framework_models.py

serve: install demo-models
	$(BIN)/manta serve --model-repository configs/models

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-test
	$(BIN)/mypy

# In two processes, each test file whole in one of them: what its tests share is made once.
unit: $(VENV)/.installed-test
	MANTA_COMPILED=0 $(UNIT) --numprocesses=2 --dist=loadfile --no-loadscope-reorder

# The same, with the lines and branches that are reached, by room; below a floor it fails. Tests that
# count instructions or pickle code cannot be measured and run behind the others; the two warnings
# are of measuring branches of tests, which nobody asks for.
UNMEASURED := tests/unit/simulation/test_scale.py tests/unit/cluster/server/test_app.py tests/unit/cluster/server/test_ingress_entry.py
unit-measured: $(VENV)/.installed-test
	@mkdir -p .cache
	MANTA_COMPILED=0 $(MEASURED) -m pytest -q -p no:schemathesis tests/unit tools/tests --numprocesses=2 --dist=loadfile --no-loadscope-reorder --durations=25 --durations-min=5 \
		$(addprefix --ignore=,$(UNMEASURED)) -W "ignore:Module already imported" -W "ignore:Unable to activate pytest branch coverage"
	MANTA_COMPILED=0 $(PYTEST) -q -p no:schemathesis $(UNMEASURED)
	$(BIN)/python scripts/coverage_floors.py .cache/coverage.json

# Of the tests that the change can reach; scripts/reached_tests.py --list names their files.
unit-reached: $(VENV)/.installed-test
	env -u PYTHONDONTWRITEBYTECODE MANTA_COMPILED=0 MANTA_EXAMPLES_PERCENT=25 $(BIN)/python scripts/reached_tests.py -m "not slow"

# Side by side; installed before, once.
check: $(VENV)/.installed-test
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-reached lint types

# TensorFlow alone is 1.4 GB.
$(VENV)/.installed-frameworks: $(VENV)/.installed-test
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[cpu,demo,compile,test,lint,tensorflow]' --constraint constraints.txt
	$(COMPILE)
	@touch $@

# Tests that import a large framework, each module in a process of its own.
frameworks: $(VENV)/.installed-frameworks
	@for module in tests/frameworks/test_*.py; do \
		$(PYTEST) -q -p no:schemathesis $$module || exit 1; \
	done

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[docs]' --constraint constraints.txt
	@touch $@

# Broken links and anchors are errors, and so are newcomers' questions that the site's search does not find.
docs: $(VENV)/.installed-docs
	$(BIN)/python scripts/make_reference.py
	$(BIN)/python scripts/make_llms.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(if $(filter serve,$(DOCS)),serve --dev-addr 127.0.0.1:8080,build --strict --quiet)
	$(if $(filter serve,$(DOCS)),,$(BIN)/python -m tests.site dist/site)

# The foreign HTTP/2 clients of the gRPC interop tests; without root or npm their tests are skipped.
interop-tools:
	scripts/interop_tools.sh

integration: $(VENV)/.installed-test demo-models demo-frameworks interop-tools kserve-client
	$(PYTEST) -q tests/integration

# What builds an image without a container engine, and what runs it.
image-tools:
	scripts/debian_packages.sh mmdebstrap=mmdebstrap buildah=buildah bwrap=bubblewrap

# Azurite from npm; without npm the tests of Azure are skipped.
store-tools:
	scripts/store_tools.sh

# Model repositories in S3, Google's and Azure's stores, as emulators on loopback.
stores: $(VENV)/.installed-test store-tools
	$(PYTEST) -q -p no:schemathesis tests/stores --durations=25 --durations-min=5

$(VENV)/.installed-k8s: $(VENV)/.installed-test
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[cpu,demo,compile,test,lint,k8s]' --constraint constraints.txt
	@touch $@

# An environment of its own: it pins packages that tests need newer.
.cache/checkov/.installed-$(CHECKOV_VERSION): $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .cache/checkov
	$(BIN)/uv pip install --quiet --python .cache/checkov/bin/python checkov==$(CHECKOV_VERSION)
	@touch $@

# Likewise.
.cache/kserve/.installed-$(KSERVE_VERSION): $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .cache/kserve
	$(BIN)/uv pip install --quiet --python .cache/kserve/bin/python kserve==$(KSERVE_VERSION)
	@touch $@

# KServe's own client, which a test asks with.
kserve-client: .cache/kserve/.installed-$(KSERVE_VERSION)

# Needs kustomize or kubectl.
k8s-check: $(VENV)/.installed-k8s .cache/checkov/.installed-$(CHECKOV_VERSION)
	$(BIN)/python scripts/k8s_check.py
	$(PYTEST) -q -p no:schemathesis tests/k8s

# The integration test runs 1,000.
sequences: $(VENV)/.installed-test
	MANTA_SEQUENCES=10000 $(PYTEST) tests/integration/test_many_sequences.py

# Integration tests and chaos run what is served: the compiled form. Only where there is no C compiler,
# and that is not CI, they run plain. Unit tests run both ways in test-all.
SERVED_FORM = MANTA_COMPILED=$$($(BIN)/python -c 'from backends import compiled_form; print(int(compiled_form.is_compiled()))')
test: $(VENV)/.installed-k8s .cache/checkov/.installed-$(CHECKOV_VERSION) store-tools
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-measured compiled-for-tests lint types stores k8s-check
	$(MAKE) --no-print-directory frameworks demo-models demo-frameworks interop-tools kserve-client
	rm -f .cache/test-times.jsonl
	$(MAKE) --no-print-directory --jobs=2 --output-sync=line integration-half-1 integration-half-2
	$(MAKE) --no-print-directory test-times MOST_STARTS=$(MOST_STARTS)
	$(SERVED_FORM) $(BIN)/python -m tests.chaos --schedule tests/chaos/schedules/each_change.txt

# Integration tests, without the longest but in test-all, in two processes that share no server.
integration-half-%:
	$(SERVED_FORM) $(PYTEST) tests/integration $(if $(filter all,$(MANTA_TESTS)),,-m "not long") --half $* --durations=25 --durations-min=5

# What the servers of the last run of integration tests took to start and end, by module. Starts are
# most of that run: it fails with more of them than these.
MOST_STARTS ?= 20
test-times: $(VENV)/.installed-test
	$(BIN)/python -m tests.support.start_times --most $(MOST_STARTS)

# FAULTS="--only sigkill-instance" runs some; --models=N of the scrape storm.
faults: $(VENV)/.installed-test
	$(BIN)/python -m tests.faults $(FAULTS)

# Faults at random under mixed load, docs/chaos.md. CHAOS="--minutes 30 --seed 1 2 3" chooses.
CHAOS ?= --minutes 3 --seed 7
chaos: $(VENV)/.installed-test
	$(BIN)/python -m tests.chaos $(CHAOS)

# A million fuzzed requests and all families of attacks, docs/security.md. ATTACK="--quick" is a minute.
attack: $(VENV)/.installed-test
	$(BIN)/python -m tests.attack $(ATTACK)

# Asks PyPI about each pin; where it does not answer, the advisories kept in scripts/ alone count.
audit: $(VENV)/.installed-test
	$(BIN)/python scripts/audit_pins.py --installed --pypi
	$(BIN)/python scripts/make_sbom.py

# All tests, each once: what takes too long for every change too, of which MANTA_TESTS=all opens the
# gates. Beside it now and then: 30 minutes of chaos for each seed, a million attacks, 10,000 sequences
# (make chaos CHAOS="--minutes 30 --seed 1 2 3", make attack, make sequences).
test-all: export MANTA_TESTS := all
test-all: $(VENV)/.installed-k8s .cache/checkov/.installed-$(CHECKOV_VERSION) store-tools image-tools
	rm -f .cache/test-times.jsonl
	$(BIN)/python scripts/test_parts.py

# TRITON_CLIENT_SRC, PYTHON_BACKEND_SRC and TRITON_SERVER_SRC name checkouts of triton-inference-server/client,
# .../python_backend and .../server.
conformance: $(VENV)/.installed-test
	$(if $(TRITON_CLIENT_SRC)$(PYTHON_BACKEND_SRC)$(TRITON_SERVER_SRC),,$(error set TRITON_CLIENT_SRC, PYTHON_BACKEND_SRC or TRITON_SERVER_SRC))
	$(if $(TRITON_CLIENT_SRC),$(BIN)/python -m tests.conformance.client_examples)
	$(if $(PYTHON_BACKEND_SRC),$(BIN)/python -m tests.conformance.python_backend_examples)
	$(if $(TRITON_SERVER_SRC),$(BIN)/uv pip install --quiet --python $(BIN)/python sseclient-py)
	$(if $(TRITON_SERVER_SRC),$(BIN)/python -m tests.conformance.upstream_qa)

# An environment of its own, whose Python writes the mutants; tests run in the one of all tests.
.cache/mutants/.installed-$(MUTMUT_VERSION): $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .cache/mutants
	$(BIN)/uv pip install --quiet --python .cache/mutants/bin/python mutmut==$(MUTMUT_VERSION)
	@touch $@

# MUTANTS="--room scheduling --count 40" runs some, --seed 1 others.
mutants: $(VENV)/.installed-test .cache/mutants/.installed-$(MUTMUT_VERSION)
	$(BIN)/python -m scripts.mutants $(MUTANTS)

# FUZZ_SECONDS is for each target.
fuzz: $(VENV)/.installed-test
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[cpu,demo,compile,test,lint,fuzz]' --constraint constraints.txt
	$(BIN)/python -m tests.fuzz $(or $(FUZZ_SECONDS),60)

bench: $(VENV)/.installed-test demo-models
	$(BIN)/python scripts/bench.py
	$(BIN)/python scripts/bench_batching.py
	$(BIN)/python scripts/bench_pools.py
	$(BIN)/python scripts/bench_lifecycle.py

# PERF="--only HTTP --rounds 2" measures some.
bench-perf: $(VENV)/.installed-test
	$(BIN)/python scripts/bench_perf.py $(PERF)

# BACKENDS="--only fil --rounds 1" measures some.
bench-backends: $(VENV)/.installed-frameworks
	$(BIN)/python scripts/compile.py --if-possible
	$(BIN)/python scripts/bench_backends.py $(BACKENDS)

# STORES="--only download --rounds 3" measures some.
bench-stores: $(VENV)/.installed-test
	$(BIN)/python scripts/bench_stores.py $(STORES)

# ON_DEMAND="--requests 1000 --seconds 300" is shorter; all 10,000 requests may take an hour on two cores.
bench-on-demand: $(VENV)/.installed-test
	$(BIN)/python scripts/on_demand_load.py $(ON_DEMAND)

# SCALE="--only assign --profile" measures some.
simulate: $(VENV)/.installed-test
	$(BIN)/python scripts/simulate_scale.py $(SCALE)

# A lane alone, then whole servers. Needs user namespaces and /dev/net/tun.
lanes: $(VENV)/.installed-test
	$(BIN)/python scripts/lane_namespaces.py
	$(BIN)/python scripts/lane_servers.py $(LANES)

clean:
	rm -rf $(VENV) .renamed .compiled .compiled_shim .compiled_client dist .mypy_cache .ruff_cache .hypothesis configs/models configs/framework_models configs/framework_answers
