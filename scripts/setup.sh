#!/usr/bin/env bash
# Installs what is missing: Debian packages (as root, or through sudo) and a virtual environment in
# .venv with the Python packages of requirements.txt. Torch and the packages that must fit it are
# pinned, tools are not. The machine's own Python is left alone. A second run installs nothing, so it
# needs no network.
#
# Usage: scripts/setup.sh [lint|docs]     "lint" adds the tools of `make lint`, "docs" those of `make docs`
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build make python3 python3-dev python3-venv
          libgloo-dev libhwy-dev libgtest-dev nlohmann-json3-dev libcli11-dev zlib1g-dev
          dataset-fashion-mnist espeak-ng sox iproute2 openmpi-bin)
if [ "${1:-}" = lint ]; then packages+=(clang-format clang-tidy); fi
if [ "${1:-}" = docs ]; then packages+=(doxygen); fi

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

# The packages that an argument adds. requirements.txt is a constraint, because torch must stay the one
# that gradwire is built against.
more=requirements-${1:-}.txt
if [ -f "$more" ] && ! cmp -s "$more" ".venv/installed-$more"; then
  echo "Installing the Python packages of make $1 into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.txt -r "$more"
  cp "$more" ".venv/installed-$more"
fi
