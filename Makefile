# Needs make and Python >= 3.11 with its venv module; everything else is installed into .venv.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
OUTPUT := demo_output
DATA := ../shared/data
WORKERS := 2
MINUTES := 30
SEED := 0

# `make PYTHON=/path/to/python demo` chooses an interpreter; otherwise the first usable one of this list.
PYTHON :=
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3 python

EXTRAS_demo := cli,plot
EXTRAS_test := test,plot,parquet
EXTRAS_nightly := test,nightly,plot,parquet
EXTRAS_lint := lint,test,plot
EXTRAS_docs := docs,cli,conic,plot,report
EXTRAS_dist := release

# One thread a process: the tests run in WORKERS processes, and small factorizations are slower on several threads.
# Bytecode is kept: tests that start Python anew, and the next run, need not compile every module again.
ONE_THREAD := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg
WARM = $(ONE_THREAD) $(BIN)/manykernels warm --workers $(WORKERS)
LOOPS := $(shell grep -rl --include=*.py "^@compiled" src)
# The tests of a file stay on one worker: fixtures of files run experiments.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Programs run WORKERS at a time; what one prints is shown when it is done. Arguments stand behind the name on each line.
SIDE_BY_SIDE = xargs -P $(WORKERS) -I{} sh -c 'printed=$$($(ONE_THREAD) $(BIN)/python {} 2>&1); code=$$?; \
  printf "%s\n" "{}" "$$printed"; exit $$code'

.PHONY: help demo test nightly test-portable optima fuzz lint format docs examples bench-smoke experiments reproduction dist clean
.NOTPARALLEL:

help:
	@echo "make demo         fit the demonstration model and write tables and a picture to $(OUTPUT)/"
	@echo "make test         run the tests and doctests"
	@echo "make nightly      run all tests, the many cases, pages and programs that make test leaves out too"
	@echo "make test-portable  run the numerical tests as other processors would: CORES=\"$(CORES)\", PARTS=1 for all on each"
	@echo "make fuzz         fit hostile problems, use searches and folds, change model files for MINUTES=$(MINUTES) from SEED=$(SEED) on and judge the answers"
	@echo "make optima       solve the problems of the tests by the conic oracle anew and store the optima"
	@echo "make lint         check style, types, docstrings and the rules of the house"
	@echo "make format       apply the style"
	@echo "make docs         build the documentation into docs/_build/html and check the links inside it"
	@echo "make examples     run every example, and the programs of every page; those of the gallery run in make docs"
	@echo "make bench-smoke  run every benchmark on its smallest problem"
	@echo "make experiments  run the quick variant of every experiment on the data in DATA=$(DATA)"
	@echo "make reproduction  make every run of the papers anew, resumable (20 CPU hours), on the data in DATA=$(DATA)"
	@echo "make dist         build the wheel and the source archive into dist/ and check what is in them"
	@echo "make clean        remove everything that was built, .venv included"

demo: $(VENV)/.installed-demo
	$(BIN)/manykernels demo --output $(OUTPUT)

# CORE=Haswell, for instance, takes the kernels of OpenBLAS for that processor in place of those for this one.
test: $(VENV)/.installed-test $(VENV)/.compiled
	$(if $(CORE),OPENBLAS_CORETYPE=$(CORE)) $(ONE_THREAD) $(BIN)/python -m pytest $(PARALLEL)

# pip keeps one core busy. The package is built while what it needs is installed, and what the tests need besides is
# installed while loops are compiled.
$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	@echo "installing manykernels, and [$(EXTRAS_test)] while its loops are compiled, into $(VENV)"
	@$(PIP) --no-deps --editable . & building=$$!; $(PIP) $$($(BIN)/python .ci/requirements) $$($(BIN)/python .ci/requirements cli) || exit; \
	  wait $$building
	@$(WARM) & compiling=$$!; $(PIP) $$($(BIN)/python .ci/requirements $(EXTRAS_test)) || exit; \
	  wait $$compiling && touch $(VENV)/.compiled
	@touch $@

# Loops are compiled before the workers start: each would compile them for itself.
$(VENV)/.compiled: $(LOOPS) | $(VENV)/.installed-test
	$(WARM)
	@touch $@

nightly: $(VENV)/.installed-nightly $(VENV)/.compiled
	$(ONE_THREAD) $(BIN)/python -m pytest $(PARALLEL) --session-timeout 7200 -m "nightly or not nightly"
	$(ONE_THREAD) $(BIN)/python benchmarks/estimator_checks.py
	$(MAKE) test-portable PARTS=1
	$(MAKE) test-portable PARTS=1 CORES=Haswell LOOPS_FOR=generic

# OpenBLAS and Numba round differently on other processors, and no test may depend on that. CI runs all tests with the
# kernels of Haswell (`make test CORE=Haswell`), and each numerical test with those of one of CORES besides: one case in
# PARTS on each, and TURN moves the parts from one of CORES to the next (CI counts days). PARTS=1 runs every case on each
# (`make nightly`). Numerical is every folder that computes with matrices. The others hold what no rounding changes:
# arguments (validation), programs (cli), pages and rules (meta), and docstrings; so do the files UNROUNDED in the folders
# that compute: bytes, pictures, and files that are written, read and opened by other processes.
# LOOPS_FOR=generic compiles the loops for any x86-64 processor first, in about two minutes.
CORES := Prescott $(if $(shell grep -m 1 -o avx512vl /proc/cpuinfo 2>/dev/null),SkylakeX)
PARTS := $(words $(CORES))
TURN := 0
LOOPS_FOR :=
NUMERICAL := $(addprefix tests/,discovery alignment solvers estimators inspection oracles objective grams kernels testing \
  experiments fuzz)
UNROUNDED := memory pictures displays files model_file_foreign
ROUNDING = $(if $(LOOPS_FOR),NUMBA_CPU_NAME=$(LOOPS_FOR)) $(ONE_THREAD)

test-portable: $(VENV)/.installed-test $(VENV)/.compiled
	@$(if $(LOOPS_FOR),$(ROUNDING) $(BIN)/manykernels warm --workers $(WORKERS))
	@set -e; number=$(TURN); for core in $(CORES); do \
	  part=$$((number % $(PARTS) + 1))/$(PARTS); number=$$((number + 1)); \
	  echo "OPENBLAS_CORETYPE=$$core, part $$part, inputs perturbed by signs of seed $$number"; \
	  OPENBLAS_CORETYPE=$$core $(ROUNDING) $(BIN)/python -m pytest -q $(PARALLEL) --session-timeout 7200 \
	    $(foreach name,$(UNROUNDED),--ignore-glob="*/test_$(name).py") --part=$$part --jitter=$$number $(NUMERICAL); \
	done

fuzz: $(VENV)/.installed-test
	$(ONE_THREAD) $(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) --workers $(WORKERS)

# The file is part of the repository; it is written anew when the problems of `manykernels.testing.problems` change.
optima: $(VENV)/.installed-test
	$(ONE_THREAD) $(BIN)/python -m tests.support.optima
	$(ONE_THREAD) $(BIN)/python -m tests.support.shared

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict lint/client.py
	$(ONE_THREAD) $(BIN)/python -m pytest -q lint

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	rm -rf docs/_build docs/generated docs/gallery
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/_extensions/links.py docs/_build/html
	$(BIN)/python docs/_extensions/layout.py docs/_build/html
	$(BIN)/python docs/_extensions/promises.py docs/gallery

# Those of the gallery run when the documentation is built.
examples: $(VENV)/.installed-nightly
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist load -m example tests

bench-smoke: $(VENV)/.installed-nightly
	@printf '%s --smoke\n' benchmarks/[a-z]*.py | $(SIDE_BY_SIDE)

# The wheel is tried where nothing but its own requirements is installed.
dist: $(VENV)/.installed-dist
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python lint/distribution.py dist
	$(BIN)/python -m venv build/release
	build/release/bin/python -m pip install --quiet dist/*.whl
	cd build && release/bin/manykernels --version && release/bin/python -c \
	  "from manykernels import MKLRegressor; MKLRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])"

# A file without a leading underscore is a program; its helpers have one.
STAND_IN := $(patsubst %,tests/experiments/test_%.py,skm spicymkl pfbs)

experiments: $(VENV)/.installed-test
	@set -e; if [ ! -d "$(DATA)" ]; then \
	  echo "there is no folder $(DATA) (DATA=...): the experiments run on stand-in data"; \
	  $(ONE_THREAD) $(BIN)/python -m pytest -q $(PARALLEL) -m nightly $(STAND_IN); exit $$?; \
	fi; \
	rm -rf experiments/results/quick; \
	for script in experiments/*/[a-z]*.py; do \
	  name=$${script#experiments/}; \
	  echo "$$script --quick --data $(DATA) --output experiments/results/quick/$${name%.py}"; \
	done | $(SIDE_BY_SIDE)

# About 20 CPU hours, at most two programs at a time; given again, it goes on where it stopped.
reproduction: $(VENV)/.installed-test
	@test -d "$(DATA)" || { echo "there is no folder $(DATA) (DATA=...)"; exit 1; }
	$(BIN)/python experiments/reproduction.py --data $(DATA) | xargs -P 2 -I{} sh -c '$(ONE_THREAD) $(BIN)/python {}'

clean:
	rm -rf $(VENV) .venv-docs $(OUTPUT) build dist docs/_build docs/generated docs/gallery benchmarks/results experiments/results
	rm -rf .pytest_cache .mypy_cache .ruff_cache examples/gallery/.ruff_cache .hypothesis
	find src tests lint benchmarks examples experiments -name __pycache__ -type d -prune -exec rm -rf {} +

# Bytecode is written as modules are imported: of most of what is installed nothing ever is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# The stamp is newer than pyproject.toml once its extras are installed, so nothing is installed twice.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "installing manykernels[$(EXTRAS_$*)] into $(VENV)"
	@$(PIP) --editable '.[$(EXTRAS_$*)]'
	@touch $@

# The check imports what `-m venv` needs, since some systems ship Python without it.
$(BIN)/python:
	@for candidate in $(CANDIDATES); do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "creating $(VENV) with $$candidate"; \
	    "$$candidate" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	  fi; \
	done; \
	echo "No usable Python found. Tried: $(strip $(CANDIDATES))." >&2; \
	echo "manykernels needs Python >= 3.11 with the venv and ensurepip modules (Debian, Ubuntu: the python3-venv package)." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python demo" >&2; \
	exit 1
