#!/usr/bin/env bash
# What `make demo` does after the build: scripts/demo.sh BUILD
#
# Every method trains for 15 s on 4 workers that slow links join. At this rate all-reduce waits for
# the network most of the time, as large models do on faster networks.
set -euo pipefail
gradwire=$1/bin/gradwire
rate=250mbit

link=(--link "$rate")
if ! "$gradwire" lab --hosts 2 --rate "$rate" -- true > /dev/null 2>&1; then
  echo "Emulated links are not allowed here (run as root, or allow user namespaces), so the plain"
  echo "loopback joins the workers: the table shows what the methods cost, not what they save."
  link=()
fi
GRADWIRE_PYTHON=.venv/bin/python exec "$gradwire" compare --methods all --workers 4 "${link[@]}" \
  --seconds 15 --batch 32 --test-limit 2500 --spread 2 --report report
