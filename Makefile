# The only set-up anyone needs: Rust, Python >= 3.11, make and a C compiler; README says which versions. Everything else goes into
# .venv and target.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo build node testbed test fuzz trials style lint bench bench-memory docs clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# cargo and maturin must see the same interpreter settings, or each would rebuild what the other has built.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1
# Where Python may not keep what it has compiled, each of the tests' many programs would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE ?= 1

RUST_SOURCES := $(shell find crates data -type f -not -name '*.md' 2>/dev/null) Cargo.toml Cargo.lock
# One native module is installed at a time: optimised for measuring, or with every assertion for testing.
RELEASE := $(VENV)/.native-release
CHECKED := $(VENV)/.native-checked

help:
	@echo 'make demo   pHost, pFabric and Fastpass side by side on 144 hosts, ending in a table and a picture'
	@echo 'make build  the simulator, optimised; the other targets build what they need'
	@echo 'make node   flowloom-node, which runs the transports over UDP between real hosts, flowloom-tag, the tagger of `flowloom pias`, and flowloom-port, a port that marks'
	@echo 'make testbed  the network of examples/testbed/port.toml on this machine, with real switch ports (Linux and root; docs/testbed.md)'
	@echo 'make test   every test: cargo test, then pytest'
	@echo 'make fuzz   scenarios, files and headers that nobody wrote, for SECONDS=60 each; make trials: NUMBER=200 random scenarios of each transport'
	@echo 'make lint   rustfmt, clippy, rustdoc, ruff, mypy; make style: without clippy and rustdoc, which compile'
	@echo 'make bench  how fast the simulator is here, on one core and on all, and ns-3 beside it; make bench-memory: what flows take'
	@echo 'make docs   the API documentation in target/doc, the reference of scenarios, and the outputs and pictures of commands in docs'
	@echo 'The command line itself is $(BIN)/flowloom once one of them has run.'

# A list of requirements instead of `pip install .`: the native module has rules, and profiles, of its own. uv unpacks packages several times as
# fast as pip does; pip, which knows settings that uv does not read, is asked where uv has failed.
$(VENV)/.tools: pyproject.toml Makefile
	@echo '== a virtual environment in $(VENV)'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Flowloom needs Python 3.11 or later; try make PYTHON=python3.12' >&2; exit 1; }
	@command -v cargo > /dev/null || { echo 'Flowloom needs Rust: cargo is not on the PATH' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import tomllib; from pathlib import Path; \
	  p = tomllib.load(open("pyproject.toml", "rb")); extra = p["project"]["optional-dependencies"]; \
	  wanted = {"tools": [*p["build-system"]["requires"], "uv"], "packages": p["project"]["dependencies"], \
	    "requirements": p["project"]["dependencies"] + [w for some in extra.values() for w in some if not w.startswith("flowloom")]}; \
	  [Path("$(VENV)", name + ".txt").write_text("\n".join(lines) + "\n") for name, lines in wanted.items()]'
	@$(BIN)/pip install --requirement $(VENV)/tools.txt
	@touch $@

# What it takes to run, and what it takes to test.
$(VENV)/.packages $(VENV)/.requirements: $(VENV)/.%: $(VENV)/.tools
	@echo '== Python packages into $(VENV)'
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --requirement $(VENV)/$*.txt || $(BIN)/pip install --requirement $(VENV)/$*.txt
	@touch $@

# $(call install,PACKAGES,OPTIONS): the packages are downloaded while the simulator is compiled, which mostly keeps one core busy.
define install
	@$(MAKE) $(VENV)/.$(1) & packages=$$!; \
	  $(BIN)/maturin develop $(2) --quiet --skip-install || { wait; exit 1; }; \
	  wait $$packages
	@$(BIN)/maturin develop $(2) --uv --quiet
endef

$(RELEASE): $(VENV)/.tools $(RUST_SOURCES)
	@echo '== the simulator, optimised (the first build takes two or three minutes)'
	@rm -f $(CHECKED)
	$(call install,packages,--release)
	@touch $@

$(CHECKED): $(VENV)/.tools $(RUST_SOURCES)
	@echo '== the simulator, with assertions (the first build takes two or three minutes)'
	@rm -f $(RELEASE)
	$(call install,requirements,)
	@touch $@

build: $(RELEASE)

node: $(VENV)/.tools
	@echo '== flowloom-node, flowloom-tag and flowloom-port'
	@cargo build --release --quiet --package flowloom-host --package flowloom-tagger
	@for program in flowloom-node flowloom-tag flowloom-port; do \
	  ln -sf "$$(realpath "$${CARGO_TARGET_DIR:-target}")/release/$$program" $(BIN)/$$program; done
	@echo 'run $(BIN)/flowloom-node (crates/host/README.md has a first session) and $(BIN)/flowloom pias (docs/pias-hosts.md)'

demo: $(RELEASE)
	@echo '== 5,000 flows of Web Search at load 0.6 between 144 hosts, under three transports (about 20 s on two cores)'
	@$(BIN)/flowloom compare papers/phost/default.toml --set workload.flows=5000 \
	  --transports phost,pfabric,fastpass --ideal --out results/demo --force
	@echo
	@echo 'What to try next (docs/first-run.md goes on from here):'
	@echo '  $(BIN)/flowloom run examples/incast.toml --out results/incast'
	@echo '  $(BIN)/flowloom sweep examples/incast.toml --vary workload.senders=5,20,80 --seeds 3'
	@echo '  $(BIN)/flowloom paper list'

# `make testbed SCENARIO=FILE.toml` takes another network.
SCENARIO := examples/testbed/port.toml
testbed: $(RELEASE) node
	@$(BIN)/flowloom testbed up $(SCENARIO)

# Which tests of Rust: `make test RUST_TESTS='--test engine'`.
RUST_TESTS :=
test: $(CHECKED)
	@echo '== cargo test'
	@cargo test --workspace --quiet $(RUST_TESTS)
	@echo '== pytest'
	@$(BIN)/pytest --quiet --numprocesses auto --dist loadfile

# It needs a C++ compiler, too. With the same SEED, it tries the same inputs for as long as the code is the same.
SECONDS := 60
SEED := 26
fuzz: $(CHECKED)
	@$(BIN)/python fuzz/fuzz.py $(SECONDS) $(SEED)

# As the tests do, but more: so many scenarios of each transport, and ten times as many mutants of figure files and of ledgers.
NUMBER := 200
trials: $(CHECKED)
	@FLOWLOOM_SEED=$(SEED) FLOWLOOM_SCENARIOS=$(NUMBER) cargo test --workspace --quiet --test any_parameters -- --nocapture
	@FLOWLOOM_MUTANT_SEED=$(SEED) FLOWLOOM_MUTANTS=$$((10 * $(NUMBER))) $(BIN)/pytest --quiet --capture=no tests/python/test_mutants.py tests/python/test_importing.py -k mutants

style: $(VENV)/.requirements
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(BIN)/ruff check python tests/python fuzz .ci
	$(BIN)/ruff format --check python tests/python fuzz .ci
	$(BIN)/mypy --strict

lint: style
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet

bench: $(RELEASE)
	@$(BIN)/python benches/bench.py speed instructions threads ns3 startup

bench-memory: $(RELEASE)
	@$(BIN)/python benches/bench.py memory

docs: $(RELEASE)
	@$(BIN)/python -m flowloom.reference docs/scenario
	@$(BIN)/python -m flowloom.sessions docs/*.md
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	@echo "guides: docs/    API: $${CARGO_TARGET_DIR:-target}/doc"

clean:
	rm -rf $(VENV) python/flowloom/_native*.so
	cargo clean
