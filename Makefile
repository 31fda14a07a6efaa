# Everything is one command away; `make help` lists them. Each target makes the environment it needs first.
.DEFAULT_GOAL := help
.PHONY: help install up test check gen bench campaign lock format
BIN := .venv/bin
SOURCES := pyproject.toml requirements/install

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

install: .venv/.base ## make .venv with what `up` needs

up: .venv/.base ## start Loreline on ./docs and print its URL; Ctrl-C stops all of it
	$(BIN)/loreline up

check: .venv/.dev ## format, lint, types, layers, generated pages, unit tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m loreline.generate --check
	$(BIN)/pytest tests/unit tests/test_house.py

test: .venv/.dev ## the whole suite, with real servers
	$(BIN)/pytest

gen: .venv/.dev ## write the generated pages and schemas again
	$(BIN)/python -m loreline.generate

bench: .venv/.dev ## measure; ratios of one run
	$(BIN)/python -m benchmarks --keep

campaign: .venv/.dev ## the long kill campaign
	$(BIN)/python -m tests.campaign

format: .venv/.dev ## let ruff repair what it can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: ## resolve pyproject.toml into requirements/*.txt again (needs uv)
	requirements/lock

.venv/.base: requirements/base.txt $(SOURCES)
	requirements/install base
	touch $@

.venv/.dev: requirements/dev.txt $(SOURCES)
	requirements/install dev
	touch .venv/.base $@
