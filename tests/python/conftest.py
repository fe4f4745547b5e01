import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Worker processes import the module of their test by name.
sys.path.insert(0, str(Path(__file__).parent))

# These measure time or check what a lab leaves behind, so nothing else may run at the same time.
ALONE = {"test_lab", "test_link_use", "test_probe", "test_profile", "test_race"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in ALONE:
            item.add_marker("alone")


@pytest.fixture(autouse=True)
def _same_environment_for_all() -> Iterator[None]:
    """Lightning sets RANK and MASTER_PORT here, and the next test would join that world."""
    saved = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(saved)
