#!/usr/bin/env bash
# Installs what is missing: Debian packages (as root, or through sudo) and a virtual environment in
# .venv with the pinned Python packages. Leaves the machine's own Python alone. Does nothing that has
# been done, so it works without a network once it has run.
#
# Usage: tools/setup.sh [lint|bench]     "lint" adds the tools of `make lint`, "bench" the models and
#                                        the peers of `make bench`
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build make python3 python3-dev python3-venv
          libgloo-dev libhwy-dev libgtest-dev nlohmann-json3-dev libcli11-dev zlib1g-dev
          dataset-fashion-mnist espeak-ng sox iproute2)
if [ "${1:-}" = lint ]; then packages+=(clang-format clang-tidy); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing Debian packages: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

if ! cmp -s requirements.txt .venv/installed-requirements.txt; then
  echo "Installing Python packages into .venv"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
  cp requirements.txt .venv/installed-requirements.txt
fi

if [ "${1:-}" = bench ] && ! cmp -s requirements-bench.txt .venv/installed-requirements-bench.txt; then
  echo "Installing the Python packages of the race into .venv"
  # requirements.txt as the constraint: nothing may exchange the torch that was built against.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    -c requirements.txt -r requirements-bench.txt
  cp requirements-bench.txt .venv/installed-requirements-bench.txt
fi
