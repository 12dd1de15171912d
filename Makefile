# The only set-up anyone needs: Rust, Python >= 3.11, make and a C compiler. Everything else goes into .venv and target.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench bench-memory docs clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# cargo and maturin must see the same interpreter settings, or each would rebuild what the other has built.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1

RUST_SOURCES := $(shell find crates data -type f -not -name '*.md' 2>/dev/null) Cargo.toml Cargo.lock
# One native module is installed at a time: optimised for measuring, or with every assertion for testing.
RELEASE := $(VENV)/.native-release
CHECKED := $(VENV)/.native-checked

help:
	@echo 'make demo   pHost, pFabric and Fastpass side by side on 144 hosts, ending in a table and a picture'
	@echo 'make test   every test: cargo test, then pytest'
	@echo 'make lint   rustfmt, clippy, ruff, mypy'
	@echo 'make bench  how fast the simulator is here, and ns-3 beside it; make bench-memory: what flows take'
	@echo 'make docs   the API documentation in target/doc, and the reference of scenarios'
	@echo 'The command line itself is $(BIN)/flowloom once one of them has run.'

# A list of requirements instead of `pip install .`: the native module has rules, and profiles, of its own.
$(VENV)/.requirements: pyproject.toml
	@echo '== Python packages into $(VENV)'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Flowloom needs Python 3.11 or later; try make PYTHON=python3.12' >&2; exit 1; }
	@command -v cargo > /dev/null || { echo 'Flowloom needs Rust: cargo is not on the PATH' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import tomllib; \
	  p = tomllib.load(open("pyproject.toml", "rb")); extra = p["project"]["optional-dependencies"]; \
	  wanted = p["build-system"]["requires"] + p["project"]["dependencies"] + extra["dask"] + extra["dev"]; \
	  print(*[w for w in wanted if not w.startswith("flowloom")], sep="\n")' > $(VENV)/requirements.txt
	@$(BIN)/pip install --requirement $(VENV)/requirements.txt
	@touch $@

$(RELEASE): $(VENV)/.requirements $(RUST_SOURCES)
	@echo '== the simulator, optimised (the first build takes some minutes)'
	@rm -f $(CHECKED)
	@$(BIN)/maturin develop --release --quiet
	@touch $@

$(CHECKED): $(VENV)/.requirements $(RUST_SOURCES)
	@echo '== the simulator, with assertions (the first build takes some minutes)'
	@rm -f $(RELEASE)
	@$(BIN)/maturin develop --quiet
	@touch $@

demo: $(RELEASE)
	@$(BIN)/flowloom compare papers/phost/default.toml --transports phost,pfabric,fastpass --ideal --out results/demo --force

test: $(CHECKED)
	@echo '== cargo test'
	@cargo test --workspace --quiet
	@echo '== pytest'
	@$(BIN)/pytest --quiet

lint: $(VENV)/.requirements
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check python tests/python
	$(BIN)/ruff format --check python tests/python
	$(BIN)/mypy --strict

bench: $(RELEASE)
	@$(BIN)/python benches/bench.py speed instructions ns3 startup

bench-memory: $(RELEASE)
	@$(BIN)/python benches/bench.py memory

docs: $(RELEASE)
	@$(BIN)/python -m flowloom.reference docs/scenario.md
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	@echo "guides: docs/    API: $${CARGO_TARGET_DIR:-target}/doc"

clean:
	rm -rf $(VENV) python/flowloom/_native*.so
	cargo clean
