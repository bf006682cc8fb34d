# Every target sets up what it needs: a virtual environment with pinned versions, made once.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.gendr-installed
SITE   := $(VENV)/.gendr-site-installed
# What is imported is compiled then; pip would compile all 15,000 files, which takes 40 seconds.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
UV  := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
# Bytecode is kept, also where the environment forbids it: half of an import is compilation.
export PYTHONDONTWRITEBYTECODE :=
# The folder itself goes on the path: the default, a finder, is asked too late for a script beside
# the clone, which would import the clone's folder `gendr` as an empty package.
EDITABLE := --config-settings editable_mode=compat -e

.PHONY: demo test test-all test-versions lint format benchmark assets docs docs-site dist clean installed

# TARGET may name any mesh file: make demo TARGET=my_mesh.obj
TARGET ?= assets/airplane.obj

demo: $(STAMP)
	@echo "Fitting a mesh to silhouettes of $(TARGET); the picture grows in out/preview.png"
	$(BIN)/gendr fit $(TARGET) -o out

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-all: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q --every

# The tests with the oldest versions that pyproject.toml allows, or with the newest:
# make test-versions RESOLUTION=highest PYTHON=python3.13. PyTorch comes with CUDA, gigabytes.
RESOLUTION ?= lowest-direct
OTHER := .venv-$(RESOLUTION)
test-versions:
	@test -x $(OTHER)/bin/uv || { $(PYTHON) -m venv $(OTHER) && $(OTHER)/bin/pip install --quiet uv; }
	$(OTHER)/bin/uv pip install --quiet --python $(OTHER) --resolution $(RESOLUTION) -e ".[dev]"
	$(OTHER)/bin/python -m pytest -n 2 --dist worksteal -q

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(STAMP)
	$(BIN)/python benchmarks/speed.py --out docs/results --docs

assets: $(STAMP)
	$(BIN)/python assets/make_assets.py

docs: $(STAMP)
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_relaxed.py
	$(BIN)/python docs/make_primitives.py
	$(BIN)/python docs/make_topk.py
	$(BIN)/python docs/make_logic.py
	$(BIN)/python docs/make_optim.py
	$(BIN)/python docs/make_sorting.py
	$(BIN)/python docs/make_examples.py

# The site, with its API reference: build/site/index.html, to be opened as a file.
docs-site: $(SITE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Source archive and wheel in dist/, checked; the wheel is tried in an environment of its own.
dist: $(STAMP)
	rm -rf dist build/lib
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python .ci/check_dist.py dist

# All that the targets need, so that several may run at a time.
installed: $(SITE)

# uv fetches and unpacks the rest at once. It reads none of pip's settings: it is told of the indexes
# and constraints among them, and pip does it where there are others that matter, or uv fails. While
# it comes, PyTorch is compiled to bytecode, which the first process would wait for.
# Those of the environment come last.
SETTINGS := $(BIN)/python -m pip config list | LC_ALL=C sort -r
HARMLESS := default-timeout|timeout|retries|disable-pip-version-check|no-cache-dir|progress-bar|quiet
FOR_UV := (index-url|extra-index-url|find-links|constraint|cert|$(HARMLESS))='[^']*'
AS_UV := -e 's/\\n/ /g' -e "s/=' /='/" -e '/find-links/s/ /,/g' -e 's/^.*\.index-url=/UV_DEFAULT_INDEX=/p' \
	-e 's/^.*\.extra-index-url=/UV_EXTRA_INDEX_URL=/p' -e 's/^.*\.find-links=/UV_FIND_LINKS=/p' \
	-e 's/^.*\.constraint=/UV_CONSTRAINT=/p' -e 's/^.*\.cert=/SSL_CERT_FILE=/p'

define set_up
	@test -x $(BIN)/python || echo "First time here: setting up $(VENV). It takes some minutes, and happens once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "1 of 2: PyTorch, the largest download"
	@$(PIP) "torch==2.13.0"
	@echo "2 of 2: gendr from this folder, and what it uses"
	@$(BIN)/python -c "import torch._dynamo" 2>/dev/null & \
	if $(SETTINGS) | grep -qvE "^(global|:env:)\.$(FOR_UV)$$"; then $(PIP) $(EDITABLE) ".[$(1)]"; \
	else { set -a; UV_INDEX_STRATEGY=unsafe-best-match; eval "$$($(SETTINGS) | sed -n $(AS_UV))"; \
	$(PIP) uv && $(UV) $(EDITABLE) ".[$(1)]"; } 2>$(VENV)/uv.log || \
	{ echo "uv failed ($(VENV)/uv.log): pip does it instead"; $(PIP) $(EDITABLE) ".[$(1)]"; }; fi
endef

$(STAMP): pyproject.toml constraints.txt
	$(call set_up,dev)
	@touch $@

# Both at once: every call of pip makes an environment to build the package in.
WITH_SITE := dev,docs
$(SITE): pyproject.toml constraints.txt
	$(call set_up,$(WITH_SITE))
	@touch $(STAMP) $@

clean:
	rm -rf $(VENV) out build dist *.egg-info
