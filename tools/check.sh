#!/usr/bin/env bash
# What `make check` runs: every check, then the list of those that failed.
cd "$(dirname "$0")/.." || exit 1
failed=()
run() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        printf '%-14s ok\n' "$name"
    else
        printf '%-14s failed\n%s\n' "$name" "$output"
        failed+=("$name")
    fi
}
run ruff .venv/bin/ruff check .
run format .venv/bin/ruff format --check .
run mypy .venv/bin/mypy
run import-linter .venv/bin/lint-imports
run tidy .venv/bin/python tools/tidy.py
if [ ${#failed[@]} -gt 0 ]; then
    echo "make check: failed: ${failed[*]}"
    exit 1
fi
