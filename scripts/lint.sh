#!/usr/bin/env bash
# Checks the formatting of the whole tree and runs static checks. Usage: scripts/lint.sh BUILD_DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

mapfile -t sources < <(git ls-files '*.cpp' '*.h')
clang-format --dry-run --Werror "${sources[@]}"

.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy

# Tests and bindings are left out: the headers of gtest and pybind11 cause too many warnings.
mapfile -t checked < <(git ls-files 'src/*.cpp' 'tools/*.cpp' 'examples/*.cpp')
printf '%s\n' "${checked[@]}" |
  xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "$build" --warnings-as-errors='*' --extra-arg=-fno-openmp 2> >(grep -v 'warnings generated' >&2)
