"""Type checks of the package, of a program that uses it, and of the compiled module."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import gradwire
import pytest
from built import ROOT
from gradwire import _core
from torch.nn.parallel import DistributedDataParallel
from training import batch, small_net
from worlds import run_world

PACKAGE = Path(importlib.util.find_spec("gradwire").origin).parent

PROGRAM = """\
import torch
from torch.nn.parallel import DistributedDataParallel

import gradwire

ddp = DistributedDataParallel(torch.nn.Linear(3, 3))
gw = gradwire.attach(
    ddp, "acpsgd", rank=4, skip=["bias"], per_parameter={"weight": {"rank": 2, "dtype": "bf16"}}
)
gradwire.attach(ddp, "sign", grad_scaler=torch.amp.GradScaler("cpu"), start_after=10)
ratio: float = gw.stats()["code_ratio_by_kind"]["conv"]
gw.load_state_dict(gradwire.merge(iter([gw.state_dict()])))
gradwire.save({"gradwire": gw.state_dict()}, "file.pt")
names: list[str] = [name for name, entry in gradwire.methods().items() if entry["options"]]
advice = gradwire.plan(profile=gw.profile(), workers=8, bandwidth=["1gbit", "10gbit"])["advice"]
compressor = gradwire.Compressor(ddp.module.named_parameters(), "topk", density=0.1)
compressor.all_reduce({"weight": torch.zeros(3, 3)})
recent: int = compressor.stats()["recent"]["steps"]
norm: float = gw.residual_norm()
gradwire.attach(ddp, 3)  # wrong
gradwire.Compressor(3, "topk")  # wrong
compressor.start([torch.zeros(3)])  # wrong
gradwire.attach(ddp)  # wrong
gradwire.attach(torch.nn.Linear(3, 3), "topk")  # wrong
gradwire.attach(ddp, "topk", density=[0.1])  # wrong
gradwire.attach(ddp, "topk", skip=[1])  # wrong
gradwire.attach(ddp, "topk", per_parameter=["weight"])  # wrong
gradwire.attach(ddp, "topk", start_after="soon")  # wrong
gw.stats()["bytes"]  # wrong
gw.stat()  # wrong
steps: str = gw.stats()["steps"]  # wrong
gw.load_state_dict("file.pt")  # wrong
gradwire.merge(3)  # wrong
gradwire.plan(workers="8")  # wrong
gradwire.plan(worker=8)  # wrong
"""


def mypy(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mypy", *map(str, arguments)],
        cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def test_the_package_passes_strictly():
    done = mypy()
    assert done.returncode == 0, done.stdout + done.stderr


def test_right_use_is_accepted_and_wrong_use_refused(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = mypy("--config-file=", "--strict", program, MYPYPATH=str(PACKAGE.parent))
    refused = {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)}
    wrong = {
        number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")
    }
    assert refused == wrong, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed():
    for name in ("py.typed", "_core.pyi"):
        assert (PACKAGE / name).is_file(), f"{PACKAGE} has no {name}"


def test_the_stub_has_the_names_of_the_compiled_module(tmp_path):
    allowed = tmp_path / "allowed"
    # pybind11 gives every class a metaclass. A class without a constructor gets an __init__ that
    # raises.
    allowed.write_text(
        r"gradwire\._core\.(Attachment|Compressor|Request|StateMerger)"
        "\n"
        r"gradwire\._core\.Attachment\.__init__"
        "\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "gradwire._core", "--allowlist", allowed,
         "--mypy-config-file", ROOT / "pyproject.toml"],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def functions_of_the_stub() -> dict[str, ast.FunctionDef]:
    found = {}
    for node in ast.parse((PACKAGE / "_core.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            functions = [member for member in node.body if isinstance(member, ast.FunctionDef)]
            found |= {f"{node.name}.{function.name}": function for function in functions}
    return found


@pytest.mark.parametrize("name", functions_of_the_stub())
def test_the_stub_has_the_signatures_of_the_compiled_module(name):
    """pybind11 writes signatures into docstrings and nowhere else."""
    compiled = _core
    for part in name.split("."):
        compiled = getattr(compiled, part)
    written = compiled.__doc__.splitlines()[0].partition(" -> ")[0]
    # Types may have commas and colons within brackets, which may be nested.
    while "[" in written:
        written = re.sub(r"\[[^][]*\]", "", written)
    compiled_names = re.findall(r"(\w+):", written)
    stub = functions_of_the_stub()[name].args
    stub_names = [argument.arg for argument in (*stub.posonlyargs, *stub.args, *stub.kwonlyargs)]
    assert len(stub_names) == len(compiled_names)
    named = [(a, b) for a, b in zip(stub_names, compiled_names, strict=True) if "arg" not in b]
    assert all(a == b for a, b in named), named


def stats_of_one_step(worker: int) -> dict:
    ddp = DistributedDataParallel(small_net())
    gw = gradwire.attach(ddp, "topk")
    ddp(batch(worker, 0)[0]).sum().backward()
    return gw.stats()


def of_kind(value: object, kind: object) -> bool:
    """Returns whether a value has the type that a TypedDict says."""
    if hasattr(kind, "__annotations__"):
        hints = get_type_hints(kind)
        return set(value) == set(hints) and all(of_kind(value[k], h) for k, h in hints.items())
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return isinstance(value, getattr(kind, "__origin__", kind))


def test_what_is_returned_is_what_the_types_say():
    [stats] = run_world(1, stats_of_one_step)
    assert of_kind(stats, gradwire.Stats)
    for description in gradwire.methods().values():
        assert of_kind(description, gradwire.MethodDescription)
        for option in description["options"].values():
            assert of_kind(option, gradwire.OptionDescription)
