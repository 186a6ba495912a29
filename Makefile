# Each target is a line or two over the tools. `make course` and `make test` are all that most people need.
PYTHON ?= python3
BIN := .venv/bin
LIBRARY := $(shell find attncourse book/_ext -name '*.py') requirements.lock
BOOK := $(shell find book -type f -not -path '*/__pycache__/*')
# Tools that start other tools (nbgrader starts alembic) look for them on PATH.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: course book exercises test coverage mutants quality lint bench serve lock clean help

help:  ## say what each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.venv/.installed: requirements.lock pyproject.toml
	@echo "Installing the pinned packages into .venv (a few minutes the first time) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --progress-bar on -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

course: book exercises  ## set everything up, build the book and the exercises, grade the sample class
	@$(MAKE) --silent _build/class/submitted
	@$(BIN)/attncourse grade qkv --gradebook _build/class
	@echo
	@echo "book:       $(CURDIR)/_build/html/index.html"
	@echo "exercises:  $(CURDIR)/exercises"
	@echo "report:     $(CURDIR)/_build/class/report.html"

# The sample class has a gradebook of its own, made anew when the exercises or the submissions change.
_build/class/submitted: $(wildcard solutions/*.py) $(shell find examples/class -name '*.ipynb')
	@rm -rf _build/class && mkdir -p _build/class
	@$(BIN)/attncourse release qkv --gradebook _build/class
	@cp -R examples/class $@ && touch $@

book: _build/html/index.html  ## build the HTML book

_build/html/index.html: .venv/.installed _config.yml _toc.yml $(BOOK) _build/library.cksum
	@# A page that was read with a warning would not be read again, and the next build would pass.
	$(BIN)/jupyter-book build . -W -n --keep-going || (rm -rf _build/.doctrees; exit 1)
	@touch $@

# A page's outputs are kept as long as its cells are the same. When the library changed, none may be kept.
_build/library.cksum: $(LIBRARY)
	@mkdir -p _build && cksum $(LIBRARY) > $@.new
	@cmp -s $@ $@.new || rm -rf _build/.jupyter_cache _build/.doctrees
	@mv $@.new $@

exercises: _build/exercises  ## build exercises/ from solutions/

_build/exercises: .venv/.installed $(wildcard solutions/*.py)
	$(BIN)/attncourse release
	@mkdir -p _build && touch $@

test: .venv/.installed book exercises  ## run every test
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: .venv/.installed  ## check style
	$(BIN)/ruff check && $(BIN)/ruff format --check

coverage: .venv/.installed book exercises  ## run every test, and show which lines of the library none runs
	$(BIN)/python -m pytest -q -n auto --dist loadfile --cov

mutants: .venv/.installed  ## change the library in one place at a time, and see whether a test fails
	$(BIN)/python tests/mutants.py

quality: .venv/.installed  ## change the solutions in one place at a time, and see whether the checks notice
	$(BIN)/python -m tests.quality

bench: .venv/.installed  ## measure the library against PyTorch, as ratios
	$(BIN)/python -m benchmarks

serve: book  ## show the book on localhost
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

lock: .venv/.installed  ## pin the newest versions that work together
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra dev --no-annotate --no-header --upgrade \
	  pyproject.toml | grep -vE '^(nvidia|cuda|triton)' > requirements.lock

clean:  ## remove what was built; keeps .venv and gradebook/
	rm -rf _build .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
