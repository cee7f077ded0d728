# Everything from nothing: each target first makes .venv, which takes a minute once and no time
# after that. Needed: make and Python 3.11 or newer with venv. No service, no root.

PYTHON ?= python3
BIN := .venv/bin
SYNCED := .venv/.synced
EXTRAS := worker,gateway,postgres,embedded
SYNC := sync --quiet --locked --all-extras --group dev

export UV_SYSTEM_CERTS := true
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench chaos fuzz recording dashboards dashboards-live compose-smoke requirements

help:  ## show this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

demo: $(SYNCED)  ## a whole cluster on this machine and a scripted agent run through it
	@$(BIN)/toolrail demo

test: $(SYNCED)  ## the whole suite
	@$(BIN)/python -m pytest -n 2 -q

check: $(SYNCED)  ## format, lint, types, import contract, unit and component tests: a minute
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/pyright --warnings
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -n 2 -q tests/unit tests/component

format: $(SYNCED)  ## format the code and apply the safe fixes
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

bench: $(SYNCED)  ## measure Toolrail beside other queues on this machine; QUICK=1: in six minutes
	@$(BIN)/python -m tests.bench $(if $(QUICK),--quick)

chaos: $(SYNCED)  ## every fault, every guard taken away, a nemesis of three minutes; SEED= replays one
	@$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED))

FUZZ_SEED = $(or $(SEED),$(shell date +%s))
EXAMPLES ?= 2000
fuzz: $(SYNCED)  ## live thousands of calls in the scripts and on paper; EXAMPLES= says how many, SEED= replays
	@seed=$(FUZZ_SEED); echo "make fuzz SEED=$$seed EXAMPLES=$(EXAMPLES)"; \
	    $(BIN)/python -m pytest -q -n 2 tests/integration/test_ledger_machine.py \
	    --hypothesis-seed=$$seed --examples=$(EXAMPLES)

recording: $(SYNCED)  ## play one approval on a real cluster into tooling/APPROVALS.md
	@$(BIN)/python -m tests.recording

dashboards: $(SYNCED)  ## write the Grafana dashboards anew
	@$(BIN)/python compose/grafana/generate.py

dashboards-live: $(SYNCED)  ## check and draw every panel on a real cell while everything goes wrong
	@$(BIN)/python -m tests.live

compose-smoke: $(SYNCED)  ## build the image and run the deployment under podman, as root, for minutes
	@$(BIN)/python -m tests.smoke

requirements: $(SYNCED)  ## write the hashes of what builds the image anew, after a change of the lock
	@$(BIN)/uv export --quiet --frozen --no-annotate --no-header --only-group build \
	    --output-file compose/requirements-build.txt >/dev/null

# The lock decides the versions. uv reads it; without uv on PATH it comes from the package index
# into the same environment. Where the locked addresses cannot be reached (a company's mirror), pip
# resolves again with its own configuration.
$(SYNCED): pyproject.toml uv.lock
	@if command -v uv >/dev/null && uv $(SYNC); then :; else \
	    test -x $(BIN)/python || $(PYTHON) -m venv .venv; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check uv && \
	    $(BIN)/uv $(SYNC) || { \
	        $(BIN)/python -m pip install --quiet --upgrade pip && \
	        $(BIN)/python -m pip install --quiet --group dev --editable '.[$(EXTRAS)]'; }; \
	fi
	@touch $@
