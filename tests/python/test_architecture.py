"""The dependency rule of docs/architecture.md: each part includes only what it may."""

import re
from pathlib import Path

import pytest
from built import ROOT

# The parts, or single headers, that each part may include. "gradwire" stands for all public
# headers.
MAY_INCLUDE = {
    "include/gradwire": {"gradwire"},
    "src/kernels": {"kernels"},
    "src/wire": {"wire"},
    "tools/lab": {"lab"},
    "tools/data": {"data"},
    "src/planner": {"planner", "gradwire/stats.h"},
    "src/methods": {"gradwire", "kernels", "wire", "planner", "methods"},
    "src/comm": {"gradwire", "kernels", "methods", "comm"},
    "src/engine": {"gradwire", "methods", "comm", "engine"},
    "src/auto": {"gradwire", "methods", "comm", "planner", "auto"},
    "src/ddp": {"gradwire", "methods", "comm", "engine", "auto", "planner", "ddp"},
    "tools/trainer": {"gradwire", "data", "trainer"},
    "tools/cli": {"gradwire", "auto", "methods", "lab", "planner", "data", "trainer", "cli"},
    "examples": {"gradwire"},
    "python": {"gradwire", "methods", "planner"},
}
# These parts build in seconds, because they include no header of torch.
TORCH_FREE = {"src/kernels", "src/wire", "tools/lab", "src/planner", "tools/data"}
TORCH_HEADERS = {"torch", "ATen", "c10", "caffe2", "gloo"}
# The only source that includes gloo's headers.
GLOO_SOURCE = "src/comm/process_group.cpp"
# The only source that decides by the device of a tensor, and the only words that do so.
DEVICE_SOURCE = "src/methods/device_code.cpp"
DEVICE_QUESTION = (
    r"\b(is_cpu|is_cuda|is_privateuseone|is_xpu|is_mps)\b|device\(\)\.type\b|_code\(\)"
)


def sources(part: str) -> list[Path]:
    found = [p for p in (ROOT / part).rglob("*") if p.suffix in {".cpp", ".h"}]
    assert found, f"{part} has no sources: is the rule out of date?"
    return found


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("part", MAY_INCLUDE)
def test_part_includes_only_what_it_may(part):
    ours = {name.rsplit("/", 1)[-1] for name in MAY_INCLUDE}
    for path in sources(part):
        for include in includes(path):
            top = include.split("/")[0]
            if "/" in include and top in ours:
                allowed = {top, include} & MAY_INCLUDE[part]
                assert allowed, f"{path.relative_to(ROOT)} includes {include}"


@pytest.mark.parametrize("part", sorted(TORCH_FREE))
def test_leaf_has_no_torch(part):
    for path in sources(part):
        for include in includes(path):
            assert include.split("/")[0] not in TORCH_HEADERS, f"{path} includes {include}"


@pytest.mark.parametrize("source", ["plan.cpp", "speed_up_plot.cpp"])
def test_planning_command_has_no_torch(source):
    for include in includes(ROOT / "tools/cli" / source):
        assert include.split("/")[0] not in TORCH_HEADERS | {"gradwire", "methods"}, include


def test_every_part_has_a_rule():
    folders = [p for top in ("src", "tools") for p in (ROOT / top).iterdir() if p.is_dir()]
    parts = {str(folder.relative_to(ROOT)) for folder in folders}
    assert parts <= set(MAY_INCLUDE)


def test_gloo_stays_in_one_source():
    for part in MAY_INCLUDE:
        for path in sources(part):
            if str(path.relative_to(ROOT)) != GLOO_SOURCE:
                assert not any("gloo" in i.lower() for i in includes(path)), path


def test_one_source_decides_by_the_device():
    for path in sources("src"):
        name = str(path.relative_to(ROOT))
        if name == DEVICE_SOURCE:
            continue
        asked = [
            line
            for line in path.read_text().splitlines()
            if re.search(DEVICE_QUESTION, line) and not line.startswith("const DeviceCode& ")
        ]
        assert not asked, f"{name}: {asked}"


def test_only_kernel_code_calls_kernels():
    """So a device that is given other code runs no kernel."""
    for path in sources("src/methods"):
        if not path.name.endswith("_kernels.cpp"):
            assert not any(
                i.startswith("kernels/") and not i.endswith("_format.h") for i in includes(path)
            ), path  # formats have no code
