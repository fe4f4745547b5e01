"""What users do after installing: they run a wheel, and call find_package(gradwire)."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from built import ROOT
from launchers import run
from worlds import free_port

BUILD = os.environ.get("GRADWIRE_BUILD")
# The build tree must not be found, or a file that is not installed would not be missed.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

pytestmark = pytest.mark.skipif(BUILD is None, reason="GRADWIRE_BUILD is unset")


def assert_a_project_finds(prefix: Path, folder: Path) -> None:
    """Configure, build and run a user's project in ``folder``."""
    project = folder / "project"
    shutil.copytree(ROOT / "tests/package", project)
    run(
        *("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}"),
        *(f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"),
    )
    run("cmake", "--build", project / "build", timeout=300)
    world = {
        "RANK": "0", "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    output = run(project / "build/uses_gradwire", env={**os.environ, **world}, timeout=60)
    assert "steps: 1" in output


def test_find_package_from_another_project(tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--component", "development", "--prefix", prefix)
    assert_a_project_finds(prefix, tmp_path)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with gradwire's wheel, and torch from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    # As `pip wheel .` makes it, but out of the tree that is compiled already.
    run(
        *(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"),
        *(f"--config-settings=build-dir={BUILD}", "--wheel-dir", folder, ROOT),
        env=CLEAN,
        timeout=900,
    )
    # Leave the tree as it was: without what a wheel's build notes in it.
    run("cmake", "-U", "SKBUILD*", "-D", "CMAKE_INSTALL_PREFIX=/usr/local", BUILD)
    [wheel] = folder.glob("*.whl")
    place = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "torch.pth").write_text(sysconfig.get_path("purelib"))
    # Refuses to install if the torch that is there is not the one the wheel asks for.
    run(
        *(sys.executable, "-m", "pip", "--python", place / "bin/python"),
        *("install", "--no-index", wheel),
        env=CLEAN,
    )
    return place, packages / "gradwire"


# Making the wheel configures the build tree anew, from which other tests run.
@pytest.mark.alone
def test_a_wheel_serves_another_environment(environment, tmp_path):
    place, package = environment
    where = run(
        *(place / "bin/python", "-c", "import gradwire; print(gradwire.__file__)"),
        env=CLEAN, cwd=tmp_path,
    )  # fmt: skip
    assert Path(where.strip()) == package / "__init__.py"
    trained = run(
        *(place / "bin/gradwire", "train", "--data", "fashion-mnist", "--model", "mlp"),
        *("--method", "topk", "--workers", "2", "--epochs", "1", "--train-limit", "256"),
        *("--test-limit", "64", "--json", tmp_path / "result.json"),
        env=CLEAN, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert "topk" in trained
    assert (tmp_path / "result.json").exists()


@pytest.mark.alone
def test_find_package_from_a_wheel(environment, tmp_path):
    assert_a_project_finds(environment[1], tmp_path)


@pytest.mark.alone
def test_a_wheel_holds_one_copy_of_the_library_and_no_tests(environment):
    package = environment[1]
    assert [file.name for file in package.glob("lib/lib*")] == ["libgradwire.so.0"]
    assert {file.name for file in package.glob("bin/*")} == {"gradwire"}
    assert (package / "py.typed").exists()


def import_fails(code: str, **environment: str) -> str:
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert outcome.returncode == 1
    return outcome.stderr


def test_another_version_of_torch_is_refused():
    message = import_fails("import torch; torch.__version__ = '2.99.0+cpu'; import gradwire")
    assert "gradwire was built for torch 2.13.0, and this is torch 2.99.0+cpu" in message
    assert "pip install" in message


def test_a_module_that_does_not_load_is_explained(tmp_path):
    package = tmp_path / "gradwire"
    shutil.copytree(ROOT / "python/gradwire", package)
    (package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    message = import_fails("import gradwire", PYTHONPATH=str(tmp_path))
    assert "gradwire's compiled module cannot be loaded with torch 2.13.0" in message
    assert "file too short" in message
