import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Worker processes import the test's module by name, and that module imports worlds.
sys.path.insert(0, str(Path(__file__).parent))

# They measure time, or look for what a lab has left behind: nothing else may run beside them.
ALONE = {"test_lab", "test_link_use", "test_probe", "test_profile", "test_race"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in ALONE:
            item.add_marker("alone")


@pytest.fixture(autouse=True)
def _same_environment_for_all() -> Iterator[None]:
    """Lightning sets RANK and MASTER_PORT in this process: the next test would join that world."""
    saved = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(saved)
