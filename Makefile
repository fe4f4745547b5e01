# Every target does its own set-up, once.
#
#   make demo      train Fashion-MNIST on 4 local workers joined by slow links, every method for the
#                  same time; print a table and write a report
#   make test      build and run the whole test suite; `make test-quick` runs a part of it in less than
#                  4 minutes once everything is built
#   make build     build everything into build/release
#   make lint      run clang-format, clang-tidy, ruff and mypy
#   make docs      write the reference of the C++ and Python API into build/docs, as HTML
#   make asan      run the C++ tests under the address and undefined-behaviour sanitizers, and those of
#                  the leaves under the thread sanitizer
#   make coverage  find the lines of the C++ sources that the tests run; fail below 90 %
#   make bench     run the race of all methods and their peers on emulated slow networks (90 minutes)
#                  and write docs/performance.md; `make bench-quick` is a short form (5 minutes)
#   make study     train four tasks with every method, find the time to equal loss on emulated links, and
#                  write docs/accuracy.md; CIFAR10=DIR and TEXT=FILE are the data; it stops after 12
#                  hours and goes on when started again
#   make chaos     kill 20 workers at random times, for every method except auto
#   make soak      check that memory stays flat for 20,000 steps, for every method except auto

SHELL := /bin/bash
PRESET := release
BUILD = build/$(PRESET)
PYTHON = PYTHONPATH=$(CURDIR)/$(BUILD)/python GRADWIRE_BUILD=$(CURDIR)/$(BUILD) .venv/bin/python
# The workers of a test share the machine, so each has one thread.
ONE_THREAD := OMP_NUM_THREADS=1

.PHONY: demo test test-quick build lint docs asan coverage bench bench-quick study chaos soak setup
demo: build
	@scripts/demo.sh $(BUILD)

# The time counts from the start of make, so it includes the set-up and the build.
BEGUN := $(shell date +%s)
test: build
	@trap '{ set +x; } 2> /dev/null; took=$$(($$(date +%s) - $(BEGUN))); \
	  echo "make test took $$((took / 60)) min $$((took % 60)) s"' EXIT; \
	set -ex; \
	$(ONE_THREAD) ctest --test-dir $(BUILD) -j2 --output-on-failure; \
	$(ONE_THREAD) $(PYTHON) -m pytest tests/python -q -m alone; \
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

# Worker processes of most Python tests end without writing their counts, so only tests that start the
# command count. A line counts as run if it has run for one SIMD target, as no machine has all of them.
COUNTED := train compare bench lab plan probe examples
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
	$(PYTHON) -m bench.study --report docs/accuracy.md \
	  $(if $(CIFAR10),--cifar10 $(CIFAR10)) $(if $(TEXT),--text $(TEXT))

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
