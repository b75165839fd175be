# Everything a newcomer or CI needs. `make help` explains itself.
# The virtual environment lives in .venv; jars and class archives in $XDG_CACHE_HOME/kafka-features-operator (or ~/.cache/...).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.PHONY: help demo check unit simulation kafka clients migration kubernetes rolls pipeline test e2e bench soak mutants format docs site krew release lock clean

help: ## this text
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## see the main story on a simulated cluster: needs Python 3.11+ and PyPI, nothing else
	@$(BIN)/kafkafeatures demo

check: $(VENV)/.dev ## the inner loop: lint, types, layers, unit and property tests, a short simulation; no Kafka, no JVM; below 3 minutes, after the first time
	@HISTORIES=300 MINUTES=3 $(BIN)/python -m tests.run lint types test-types layers unit simulation

unit: $(VENV)/.dev ## a part of check: the fast tests
	@$(BIN)/python -m tests.run unit

simulation: $(VENV)/.dev ## a part of check and test, here longer: random histories of the operator on simulated clusters, judged by what the documentation promises
	@HISTORIES=$${HISTORIES:-3000} $(BIN)/python -m tests.run simulation

kafka: $(VENV)/.dev ## a part of test: real Kafka (needs Java 17+ and Maven)
	@$(BIN)/python -m tests.run kafka

clients: $(VENV)/.dev ## a part of test: real clients of many makers and ages on real brokers (needs JDK 17+, Maven, Go 1.26+, Node.js 18+)
	@$(BIN)/python -m tests.run clients

migration: $(VENV)/.dev ## a part of test: from ZooKeeper to KRaft on real nodes of Kafka 3.9, also in pods (needs what test needs)
	@$(BIN)/python -m tests.run migration

kubernetes: $(VENV)/.site $(VENV)/.release ## a part of test: the image, the chart, the operator on real Kubernetes and Kafka (needs what test needs)
	@$(BIN)/python -m tests.run kubernetes

rolls: $(VENV)/.dev ## a part of test: nodes restarted on real Kubernetes, three controllers and six brokers in three racks (needs what test needs)
	@$(BIN)/python -m tests.run rolls

pipeline: $(VENV)/.spark ## a part of test: tables of metadata logs, on Spark and S3 as well (needs Java 17+, Go 1.26+; fetches Spark, 455 MB, once)
	@$(BIN)/python -m tests.run pipeline

test: $(VENV)/.spark $(VENV)/.site $(VENV)/.release ## everything, with real Kafka and Kubernetes (needs root on Debian, JDK 17+, Maven, Go 1.26+, Node.js 18+); prints the minutes of each suite
	@$(BIN)/python -m tests.run

e2e: kubernetes ## as kubernetes

bench: $(VENV)/.spark ## ratios against Kafka's own tools: same machine, same cluster, interleaved
	@$(BIN)/python -m tests.bench

soak: $(VENV)/.spark $(VENV)/.site $(VENV)/.release ## as test, with the long seeds, many more leader changes and the tests that take minutes each; before a release
	@SOAK=1 $(BIN)/python -m tests.run

mutants: $(VENV)/.dev ## which of our programmes finds which of the small faults of tests/reliability/mutants.py; takes hours, goes on where it was ended
	@$(BIN)/python -m tests.reliability mutants

format: $(VENV)/.dev ## let the formatter and the linter mend what they can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

docs: $(VENV)/.dev ## write anew what is made of the code: docs/reference, docs/runbooks, files of the chart, the output in README and docs
	@$(BIN)/python -m docs.make.reference

site: $(VENV)/.site ## the pages of docs as a web site in build/site; a dead link fails it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

krew: $(VENV)/.dev ## the command line as a kubectl plugin in dist/krew, for krew; URL=https://... is where you will publish it
	@$(BIN)/python krew/build.py dist/krew $(if $(URL),--url $(URL))

release: $(VENV)/.release ## checks, then wheels, image, chart and what proves them in dist/release; VERSION=x; docs/how-to/make-a-release.md
	@$(BIN)/python -m release

lock: ## resolve the dependencies anew into requirements/*.lock, with hashes
	@$(PYTHON) -m venv .venv/lock && .venv/lock/bin/pip install -q uv
	@.venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade pyproject.toml -o requirements/runtime.lock
	@.venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade pyproject.toml --extra operator -o requirements/operator.lock
	@.venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade pyproject.toml --extra operator --extra pipeline --group dev -o requirements/dev.lock
	@.venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade pyproject.toml --extra pipeline --extra spark -o requirements/pipeline.lock
	@.venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade --group site -c requirements/dev.lock -o requirements/site.lock
	@.venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade --group release -c requirements/dev.lock -o requirements/release.lock
	@printf '%s\n' 'gssapi ~= 1.12' | .venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --upgrade - -o requirements/kerberos.lock
	@printf '%s\n' 'Cython == 3.3.0' setuptools | .venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --upgrade - -o requirements/kerberos-build.lock
	@printf '%s\n' hatchling pip setuptools | .venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --upgrade - -o requirements/build.lock

clean: ## remove the environment and what tools leave behind; caches outside the tree stay
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# hatchling builds the package from the sources in place, and pip writes the commands: with Python 3.11's own pip they import
# `re` before any line of ours, and Ctrl-C meanwhile is a traceback. Both are locked as well, so nothing unlocked is ever fetched.
$(VENV)/.runtime: requirements/runtime.lock requirements/build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/runtime.lock -r requirements/build.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.lock
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.site: $(VENV)/.dev requirements/site.lock
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/site.lock
	@touch $@

$(VENV)/.release: $(VENV)/.runtime requirements/release.lock
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/release.lock
	@touch $@

# Spark is most of what is ever fetched, and only what runs on it needs it: it comes on top of .dev. It alone has no wheel on PyPI,
# and is built with the setuptools of build.lock.
$(VENV)/.spark: $(VENV)/.dev requirements/pipeline.lock
	@$(BIN)/pip install -q --disable-pip-version-check --only-binary :all: --no-binary pyspark --no-build-isolation --require-hashes \
	  -r requirements/pipeline.lock
	@touch $@
