# Each target is a line or two over the tools. `make course` and `make test` are all that most people need.
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
TOPICS := $(basename $(notdir $(wildcard solutions/*.py)))
LIBRARY := $(shell find attncourse -name '*.py') requirements.lock
# Tools that start other tools (nbgrader starts alembic) look for them on PATH.
export PATH := $(BIN):$(PATH)

.PHONY: course book exercises test lint bench serve lock clean help

help:  ## say what each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.venv/.installed: requirements.lock pyproject.toml
	@echo "Installing the pinned packages into .venv (a few minutes the first time) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --progress-bar on -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@
