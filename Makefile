# What CI runs, and what you run before it does. `make setup` once, then the others.
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup browser rust fix check test faults docs wheel lowest lowest-setup

setup:  ## a virtual environment with pinned versions
	test -x $(BIN)/python || python3 -m venv $(VENV)
	# torch first and exact: a looser requirement fetches several GB of CUDA packages.
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train,serve,dev,docs,openvino,scale]'

fix:  ## format, and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check:  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs:  ## the site, in site/; a page or a link that is missing is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel:  ## build wheel and sdist, install the wheel into an empty environment, predict with it
	$(BIN)/python tools/check_wheel.py

lowest-setup:  ## an environment with the lowest allowed version of every direct dependency
	test -x $(VENV)-lowest/bin/python || python3 -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet torch==2.13.0
	$(BIN)/python tools/lowest_versions.py > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pip install --quiet -c $(VENV)-lowest/lowest.txt '.[train]' \
		hypothesis polars psutil pytest pytest-timeout pytest-xdist types-PyYAML

# Deprecations are those of old packages, about newer ones that they use.
lowest: lowest-setup  ## unit tests with these versions
	HF_HUB_OFFLINE=1 $(VENV)-lowest/bin/python -m pytest -n 2 --dist loadfile -q tests/unit \
		--ignore tests/unit/training/test_every_argument.py -W ignore::DeprecationWarning

# In the order of the files: the slow ones of tests/docs and tests/integration come first.
test:  ## all tests; those marked `real` skip where the assets are absent
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 20

FAULTS_MINUTES ?= 60
faults:  ## kill, cut, flip and race every command for FAULTS_MINUTES; writes benchmarks/results/faults.json
	$(BIN)/python tests/faults --minutes $(FAULTS_MINUTES) --seed $$(date +%s)

browser:  ## Chromium and its driver, for the tests of pages
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }
	npm install --silent --no-fund --no-audit --prefix $(VENV)/browser playwright-core@1.65.0

rust:  ## Rust and the crates of examples/rust, for its test
	command -v cargo >/dev/null || { apt-get update -qq && apt-get install -y -qq cargo >/dev/null; }
	test -d /usr/share/cargo/registry/unicode-categories-0.1.1 -a -d /usr/share/cargo/registry/libloading-0.7.4 || \
		{ apt-get update -qq && apt-get install -y -qq librust-libloading-dev librust-serde-json-dev \
		librust-unicode-categories-dev librust-unicode-normalization-dev >/dev/null; }
