# Habits. Everything here is one command that you could also type; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help check test all fix lint types rules reference site up down status dump clean

help: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

check: ## format, lint, types, import rules, tests without sockets to real clients (< 90 s)
	scripts/test --quick

test: ## check plus real clients against started processes (< 6 min)
	scripts/test

all: ## what CI runs: test plus everything that needs a JVM
	.ci/run

fix: ## let ruff repair and format what it can
	.venv/bin/ruff check --fix-only . ; .venv/bin/ruff format .

lint: ## ruff only
	.venv/bin/ruff check . && .venv/bin/ruff format --check .

types: ## mypy --strict only
	.venv/bin/mypy --strict $$(sed -n '/^packages = \[/,/^]/p' pyproject.toml | grep -o '"[a-z_]*"' | tr -d '"')

rules: ## the import contracts only
	PYTHONPATH=. .venv/bin/lint-imports

reference: ## write docs/reference and docs/compatibility.md from the code
	.venv/bin/python -m scripts.reference

site: ## show the documentation at http://127.0.0.1:8000 (needs the extra docs)
	.venv/bin/mkdocs serve

up: ## start a three-node quorum in .quorum/
	scripts/quorum up

down: ## stop it
	scripts/quorum down

status: ## what it is doing
	scripts/quorum status

dump: ## decode metadata log segments: make dump FILES=a.log,b.log
	.venv/bin/kraftline dump-log --cluster-metadata-decoder --files $(FILES)

clean: ## remove caches (the quorum's data is removed by scripts/quorum clean)
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
