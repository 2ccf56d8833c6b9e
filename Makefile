# Two commands set up everything: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
export OMP_NUM_THREADS ?= 1
# Pages are tested in a browser. Where it cannot be installed, their tests say what is missing.
CHROMIUM := (command -v chromium && command -v chromedriver) >/dev/null || \
	([ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium chromium-driver) >/dev/null || \
	echo "tests of pages need a browser: apt-get install chromium chromium-driver"

.PHONY: demo test test-long soundness bench paper paper-quick docs docs-site lint clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The core: what a user gets from `pip install tensorproof`.
$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

# Everything that the tests need: the exporters of PyTorch, TensorFlow and JAX, too. Wheels with trained models, with the SARIF schema and with scikit-learn's digits are read as data: no dependencies.
$(VENV)/.everything: $(VENV)/.core
	$(PIP) --editable ".[test,lsp,docs]" "torch==2.13.0" onnxscript tensorflow-cpu tf2onnx jax openvino ray
	$(PIP) --no-deps silero-vad magika rapidocr-onnxruntime basic-pitch schemastore scikit-learn
	$(CHROMIUM)
	touch $@

demo: $(VENV)/.core
	$(BIN)/python examples/demo.py

test: $(VENV)/.everything lint
	$(BIN)/python -m pytest

test-long: $(VENV)/.everything
	$(BIN)/python -m pytest -m "long or not long"

lint: $(VENV)/.everything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

soundness: $(VENV)/.everything
	$(BIN)/python -m tests.soundness nodes

bench: $(VENV)/.everything
	$(BIN)/python -m benchmarks

# The tables of the papers, repeated: hours; an interrupted run goes on. `paper-quick` is a part of it, within ten minutes.
paper: $(VENV)/.everything
	$(BIN)/python -m benchmarks.paper --write

paper-quick: $(VENV)/.everything
	$(BIN)/python -m benchmarks.paper --quick --fresh

# The generated reference and the pictures, then the site from them: build/site, which needs no server and no network.
docs: $(VENV)/.everything
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.pictures

docs-site: $(VENV)/.everything
	$(BIN)/python -m docs.site

clean:
	rm -rf $(VENV) .cache build dist
