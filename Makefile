# The front door. Every target does its own set-up, once.
#
#   make demo    train Fashion-MNIST on 4 local workers with every method; a table and a report
#   make test    build and run the whole test suite; `make test-quick` is a part of it that takes less
#                than 4 minutes once all is built
#   make build   build everything into build/release
#   make lint    clang-format, clang-tidy, ruff, mypy
#   make docs    the reference of the C++ and the Python API as HTML, into build/docs
#   make asan    the C++ tests under the address and undefined-behaviour sanitizers, the leaves under
#                the thread sanitizer too
#   make coverage  which lines of the C++ sources the tests run; fails below 90 %
#   make bench   the race: every method and its peers on emulated slow networks (90 minutes); writes
#                docs/performance.md. `make bench-quick` is its short form (5 minutes)
#   make study   every method but auto on five tasks, three seeds where there is a claim (stops after
#                3 hours, goes on when started again); writes docs/accuracy.md
#   make chaos   for every method but auto, 20 workers killed at random times
#   make soak    for every method but auto, 20,000 steps with flat memory

SHELL := /bin/bash
PRESET := release
BUILD = build/$(PRESET)
PYTHON = PYTHONPATH=$(CURDIR)/$(BUILD)/python GRADWIRE_BUILD=$(CURDIR)/$(BUILD) .venv/bin/python
# A worker of the tests is one of several on the machine: one thread each.
ONE_THREAD := OMP_NUM_THREADS=1

.PHONY: demo test test-quick build lint docs asan coverage bench bench-quick study chaos soak setup
demo: build
	GRADWIRE_PYTHON=.venv/bin/python $(BUILD)/bin/gradwire compare --methods all --workers 4 --epochs 4 \
	  --train-limit 6000 --test-limit 2500 --report report

test: build
	$(ONE_THREAD) ctest --test-dir $(BUILD) -j2 --output-on-failure
	$(ONE_THREAD) $(PYTHON) -m pytest tests/python -q -m alone
	$(ONE_THREAD) $(PYTHON) -m pytest tests/python -q -m "not alone" -n 2 --dist worksteal

QUICK := amp architecture attach plan profile_spans typing wrong_use
test-quick: build
	$(ONE_THREAD) ctest --test-dir $(BUILD) -j2 --output-on-failure --exclude-regex engine_test
	$(ONE_THREAD) $(PYTHON) -m pytest -q -n 2 $(QUICK:%=tests/python/test_%.py)

build: setup
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $$(nproc)

asan: setup
	cmake --preset asan
	cmake --build --preset asan
	$(ONE_THREAD) ASAN_OPTIONS=detect_leaks=0 ctest --preset asan
	cmake --preset tsan
	cmake --build --preset tsan
	ctest --preset tsan

# Workers that are forked off a server leave without writing what they have counted, so of the Python
# tests only those count that start the command. A line counts as run if it has run for one SIMD target:
# no machine has all of them.
COUNTED := train bench lab plan probe examples
coverage: PRESET := coverage
coverage: build
	find $(BUILD) -name '*.gcda' -delete
	$(ONE_THREAD) ctest --test-dir $(BUILD) -j2 --output-on-failure
	$(ONE_THREAD) $(PYTHON) -m pytest -q $(COUNTED:%=tests/python/test_%.py)
	.venv/bin/gcovr --filter src/ --filter tools/ --object-directory $(BUILD) --merge-lines --print-summary \
	  --gcov-ignore-parse-errors suspicious_hits.warn_once_per_file --fail-under-line 90 \
	  --html-details $(BUILD)/coverage.html

bench: build
	$(PYTHON) -m bench.race --json $(BUILD)/race.json --report docs

bench-quick: build
	$(PYTHON) -m bench.race --quick --json $(BUILD)/race-quick.json

study: build
	$(PYTHON) -m bench.study --report docs/accuracy.md

chaos: build
	$(ONE_THREAD) GRADWIRE_KILLS=20 $(PYTHON) -m pytest tests/python/test_faults.py -v

soak: build
	$(ONE_THREAD) GRADWIRE_SOAK_STEPS=20000 $(PYTHON) -m pytest tests/python/test_soak.py -s

lint: setup
	@scripts/setup.sh lint
	cmake --preset lint > /dev/null
	scripts/lint.sh build/lint

docs: build
	@scripts/setup.sh docs
	mkdir -p build/docs
	doxygen Doxyfile
	$(PYTHON) -m pdoc --docformat google --output-directory build/docs/python gradwire

setup:
	@scripts/setup.sh
