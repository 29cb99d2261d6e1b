# make demo    trains a small model on two local "nodes", really
# make test    runs every test that this machine can run, several at once, and says how far it is
# make test-fast   runs the tests that need no servers and no ranks, in a minute on two cores
# make testbed-slurm   starts a Slurm cluster of four nodes on this machine, until Ctrl-C
# make check   lint, types, import rules
# make site    writes the documentation as HTML to build/site
# make docs    writes the pages that are generated from the code
# make bench-cpu   measures what the program costs around the training, beside torchrun
# make campaign   strikes a run with a fault a minute for half an hour, and measures what each costs
#
# PYTHON       the interpreter that makes .venv (3.11 or newer)
# TORCH_INDEX  URL of the package index to take torch from. On Linux the default wheel is the CUDA one, several
#              gigabytes; a machine without a GPU wants PyTorch's CPU index:  make demo TORCH_INDEX=<its URL>

PYTHON ?= python3
TORCH_INDEX ?=
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # or each process of a run compiles our sources again
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Byte code by all cores: pip uses one. Packages have files for other versions of Python, too, which do not compile.
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib || true

.PHONY: demo test test-fast testbed-slurm check docs site bench-cpu campaign format clean

demo: .venv/.train
	$(BIN)/fsdpctl submit llm-tiny --nodes 2 --follow

# The tests of a file stay together, for they share a cluster or a reference run; the longest files come first.
test: .venv/.test
	@$(BIN)/python -m compileall -q fsdpctl train  # every run takes this byte code along
	$(BIN)/python -m pytest --verbose --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-fast: .venv/.test
	$(BIN)/python -m pytest -m "not slow" --numprocesses=auto --dist=worksteal --durations=5 $(PYTEST_ARGS)

testbed-slurm: .venv/.test
	$(BIN)/python -m tests.testbed.slurm

check: .venv/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.test
	$(BIN)/python -m docs.generate

site: .venv/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench-cpu: .venv/.train
	$(BIN)/python -m bench.cpu $(BENCH_ARGS)

campaign: .venv/.test
	$(BIN)/python -m bench.campaign $(CAMPAIGN_ARGS)

format: .venv/.check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv

.venv/bin/python:
	@command -v git >/dev/null && $(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "needed: git and Python 3.11 or newer with venv. On Debian or Ubuntu:"; \
	       echo "  apt-get install -y git python3 python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.train: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable '.[train,tokenizers]'
	@$(COMPILE)
	@touch $@

.venv/.test: .venv/.train
	$(PIP) --editable '.[train,test]'
	@$(COMPILE)
	@touch $@

.venv/.check: .venv/.test
	$(PIP) --editable '.[train,test,check]'
	@$(COMPILE)
	@touch $@
