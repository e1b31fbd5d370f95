# Every target sets up what it needs in .venv; a fresh machine needs Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  ?= torch==2.13.0
FAST   := src/fedwqcp/kernels/_fast.cpp hatch_build.py  # compiled when the package is installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check
unexport PYTHONDONTWRITEBYTECODE  # tests start many processes; each would compile the package anew

.PHONY: help demo test test-lowest test-torch test-flower test-flower-oldest test-nvflare test-nvflare-oldest test-browser test-docs docs nightly fuzz check slow fast kernels sanitize paper bench-peers clean
.DEFAULT_GOAL := demo

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | sort | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

demo: $(VENV)/.demo  ## the main job, on data that needs no download
	$(BIN)/fedwqcp demo --out out

test test-lowest test-torch slow: export OMP_NUM_THREADS = 1  # two workers, one core each: threads of a model only wait
test: $(VENV)/.fast  ## the quick suite
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not flower and not nvflare and not nightly" \
	  --ignore lab/tests/models --ignore tests/flower --ignore tests/nvflare --ignore tests/test_torch.py --ignore tests/browser \
	  --ignore lab/src/fedwqcp_lab/models --ignore src/fedwqcp/torch.py --ignore src/fedwqcp/federation/transport/flower \
	  --ignore src/fedwqcp/federation/transport/nvflare

test-lowest: $(VENV)/.lowest  ## the core on the oldest supported dependencies
	$(VENV)-lowest/bin/python -m pytest -n 2 -m "not slow and not flower and not nvflare and not nightly" tests/scores tests/methods tests/wire \
	  tests/federation tests/theory tests/conformance tests/readers tests/test_quantile.py tests/test_sets.py tests/test_metrics.py \
	  tests/test_sklearn.py
	$(VENV)-lowest/bin/python -m pytest -n 2 -m "not slow" tests/kernels

check: $(VENV)/.dev  ## format, lint, types, imports between packages, docstrings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/docstrings.py

test-torch: $(VENV)/.torch  ## models and tensors
	$(BIN)/python -m pytest lab/tests/models lab/tests/studies/test_nuclei.py tests/test_torch.py lab/tests/test_training.py \
	  tests/kernels/test_triton_sets.py \
	  lab/src/fedwqcp_lab/models src/fedwqcp/torch.py src/fedwqcp/kernels -n 2 -m "not slow"

paper: $(VENV)/.torch  ## the paper's experiment: make paper DATA=folder
	$(BIN)/fedwqcp-lab reproduce $(if $(DATA),--data $(DATA)) --out runs/paper

test-flower: $(VENV)/.flower  ## rounds between real processes, with TLS and authentication
	$(BIN)/python -m pytest tests/flower tests/federation/test_certs.py tests/cli/test_server.py \
	  src/fedwqcp/federation/transport/flower -m "not slow and not nightly"

test-flower-oldest: $(VENV)/.flower-oldest  ## apps and rounds on the oldest supported Flower
	$(VENV)-flower/bin/python -m pytest tests/flower/test_client_app.py tests/flower/test_server_app.py tests/flower/test_secure.py \
	  tests/flower/test_signing.py tests/conformance/test_transports.py -m "not slow and not nightly"
	$(VENV)-flower/bin/python -m pytest tests/flower/test_new_app.py

test-nvflare: $(VENV)/.nvflare  ## rounds over NVIDIA FLARE
	$(BIN)/python -m pytest tests/nvflare tests/conformance/test_transports.py tests/cli/test_output.py -m "not slow and not nightly"

test-nvflare-oldest: $(VENV)/.nvflare-oldest  ## hostile jobs and rounds on the oldest FLARE
	$(VENV)-nvflare/bin/python -m pytest tests/nvflare -m "not slow"

nightly: $(VENV)/.simulation $(VENV)/.nvflare  ## slow faults of a federation, the oldest engines, the fuzzer
	$(BIN)/python -m pytest tests/flower tests/nvflare -m nightly
	$(MAKE) test-flower-oldest test-nvflare-oldest
	$(MAKE) fuzz SECONDS=180

SECONDS ?= 600
fuzz: $(VENV)/.flower  ## hostile messages: make fuzz SECONDS=60 SEED=7
	PYTHONPATH=tests:tools $(BIN)/python -m fuzz.fuzzer --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) --out build/fuzz

test-browser: $(VENV)/.browser docs  ## reports and the search of the docs in Chromium
	$(BIN)/python -m pytest tests/browser

docs: $(VENV)/.docs  ## the site; warnings are errors
	rm -rf docs/reference/generated/api  # of names that are gone
	$(BIN)/sphinx-build -E -W --keep-going -q -c docs . build/docs  # -E: a partial build loses search entries
	@echo "the site: $(CURDIR)/build/docs/index.html"

test-docs: $(VENV)/.docs-models  ## pages that need torch, XGBoost, Flower or Dask
	FEDWQCP_EVERY_PAGE=1 $(BIN)/python -m pytest tests/docs/test_code_blocks.py -k "pytorch or xgboost or flower or dask or serve or onnx or mlflow or hugging or monai or nuclei"

slow: $(VENV)/.dev  ## coverage against exact distributions
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

$(VENV)/.lowest: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --upgrade "pip>=25.1" uv
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct -e ".[parquet,sklearn,report]"
	$(VENV)-lowest/bin/python -m pip freeze --exclude-editable > $(VENV)-lowest/oldest.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --group test --constraint $(VENV)-lowest/oldest.txt  # test tools upgrade nothing
	touch $@

$(VENV)/.flower: $(VENV)/.dev
	$(PIP) install --quiet -e ".[flower]"
	touch $@

$(VENV)/.flower-oldest: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-flower/bin/python -m pip install --quiet -e ".[flower,sign]" "flwr==1.40.0" --group test
	touch $@

$(VENV)/.nvflare: $(VENV)/.dev
	$(PIP) install --quiet -e ".[nvflare]"
	touch $@

$(VENV)/.nvflare-oldest: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m venv $(VENV)-nvflare
	$(VENV)-nvflare/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-nvflare/bin/python -m pip install --quiet -e ".[nvflare,sign]" "nvflare==2.9.0" --group test
	touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(PIP) install --quiet --group browser
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) install --quiet --group docs
	touch $@

$(VENV)/.docs-models: $(VENV)/.torch $(VENV)/.flower
	$(PIP) install --quiet --group docs-models
	touch $@

$(VENV)/.simulation: $(VENV)/.flower
	$(PIP) install --quiet -e ".[simulation]"
	touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(PIP) install --quiet "$(TORCH)"
	$(PIP) install --quiet -e lab
	touch $@

fast: $(VENV)/.fast  ## compile the loops anew where their source changed
$(VENV)/.fast: $(VENV)/.dev $(FAST)
	$(PIP) install --quiet --no-deps -e .
	touch $@

CASES ?= 50000
kernels: $(VENV)/.fast  ## loops beside numpy: make kernels CASES=50000 SEED=1
	FEDWQCP_BACKEND=compiled PYTHONPATH=tests $(BIN)/python tests/equality.py --cases $(CASES) $(if $(SEED),--seed $(SEED))

SANITIZED := -g -fsanitize=address,undefined -fno-sanitize-recover=all
sanitize: $(VENV)/.dev  ## the compiled loops under the sanitizers of C++
	CXXFLAGS="$(SANITIZED)" $(PIP) install --quiet --no-deps -e .
	FEDWQCP_BACKEND=compiled PYTHONPATH=tests ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libstdc++.so)" \
	  $(BIN)/python tests/equality.py --cases 5000
	$(PIP) install --quiet --no-deps -e .

bench-peers: $(VENV)/.dev  ## the page of times, beside other libraries
	$(PYTHON) benchmarks/peers/run.py --setup build/peers --page --repeats 5 --limit 2 --clock cpu
	build/peers/bin/python benchmarks/one_row.py --page
	$(BIN)/python benchmarks/whole_round.py --page
	$(BIN)/python benchmarks/import_time.py --page

clean:  ## removes environments and what was built
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-flower out dist build

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("fedwqcp needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade "pip>=25.1"

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml $(FAST)
	$(PIP) install --quiet -e ".[demo]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml lab/pyproject.toml
	$(PIP) install --quiet -e ".[parquet,sklearn,demo,sign,onnx]" --group dev
	$(PIP) install --quiet --no-deps -e lab  # torch comes with test-torch and paper
	touch $@
