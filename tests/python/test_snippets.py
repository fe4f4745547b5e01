"""Checks the documentation. Its Python runs, its C++ compiles and runs, and it describes exactly
the methods and options that exist."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import gradwire
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from built import ROOT
from launchers import run
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import batch, small_net
from worlds import free_port, run_world

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDE = ROOT / "docs/adding_a_method.md"
EXAMPLE = ROOT / "tests/methods/example"
WORKERS = 2


class Snippet(NamedTuple):
    page: Path
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def snippets(page: Path, language: str) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(page, text.count("\n", 0, found.start()) + 1, language, found[1])
        for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def python_snippets(page: Path) -> list[Snippet]:
    if page.name != "README.md":
        return snippets(page, "python")
    # The README shows a change to a program. Test the changed program.
    [change] = snippets(page, "diff")
    after = re.sub(r"^-.*\n|^[ +] ", "", change.code, flags=re.MULTILINE)
    return [change._replace(code=after), *snippets(page, "python")]


class Given:
    """What a reader has before a snippet begins. Nothing is trained yet."""

    def __init__(self, worker: int, folder: str) -> None:
        self.model = small_net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")
        self.loader = [batch(worker, step) for step in range(8)]
        self.loss_function = nn.functional.cross_entropy
        self.step = 0
        self.folder = folder  # for distributed checkpoint
        # What the snippets of docs/checkpointing.md save.
        self.all_workers_files = [f"checkpoint-0-worker{w}.pt" for w in range(WORKERS)]
        self.path_of_this_worker = self.all_workers_files[worker]

    def train(self, ddp: nn.Module) -> None:
        for x, y in self.loader[:4]:
            self.optimizer.zero_grad()
            self.loss_function(ddp(x), y).backward()
            self.optimizer.step()


def run_snippet(snippet: Snippet, worker: int, folder: str, port: int) -> None:
    given = Given(worker, folder)
    names = vars(given) | {"train": given.train}
    names |= {"torch": torch, "dist": dist, "dcp": dcp, "gradwire": gradwire}
    names |= {"contextlib": contextlib, "json": json}
    if "init_process_group" in snippet.code:  # then the snippet makes its own
        dist.destroy_process_group()
        os.environ.update(RANK=str(worker), WORLD_SIZE=str(WORKERS), MASTER_PORT=str(port))
    if "DistributedDataParallel(" not in snippet.code:
        names["ddp"] = DistributedDataParallel(given.model)
        if "gradwire.attach(" not in snippet.code:
            names["gw"] = gradwire.attach(names["ddp"], "acpsgd")
    # A line of dots stands for training.
    code = re.sub(r"^\.\.\..*$", "train(ddp)", snippet.code, flags=re.MULTILINE)
    # With empty lines in front, a traceback shows the line of the page.
    exec(compile("\n" * snippet.line + code, snippet.page, "exec"), names)


def run_page(worker: int, page: Path, folder: str, port: int) -> None:
    os.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()):
        for snippet in python_snippets(page):
            run_snippet(snippet, worker, folder, port)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_snippets(page)], ids=lambda page: page.name
)
def test_python_runs(page, tmp_path):
    run_world(WORKERS, run_page, page, str(tmp_path), free_port())


# What the snippets assume. The world has one worker.
CPP_PROGRAM = """
#include <gradwire/gradwire.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>

namespace {{
auto group = gradwire::init_process_group();
torch::nn::Sequential model(torch::nn::Linear(64, 32), torch::nn::LogSoftmax(1));
torch::optim::SGD optimizer(model->parameters(), 0.1);
torch::Tensor x = torch::ones({{4, 64}});
torch::Tensor y = torch::zeros({{4}}, torch::kLong);
std::vector<gradwire::State> states;

{functions}
}}  // namespace

int main() {{
{calls}
  std::cout << "all snippets ran\\n";
}}
"""

# A snippet may define the given names again, among them a model that is not trained yet.
CPP_FUNCTION = """
void {name}() {{
  gradwire::DistributedDataParallel ddp(model, group, {{.method = "acpsgd"}});
  states = {{ddp.state()}};
  {{
#line {line} "{page}"

{code}
  }}
}}
"""


def cpp_program() -> str:
    functions, calls = [], []
    for snippet in (s for page in PAGES if page != GUIDE for s in snippets(page, "cpp")):
        name = f"{snippet.page.stem}_line_{snippet.line}"
        functions.append(CPP_FUNCTION.format(name=name, **snippet._asdict()))
        calls.append(f"  {name}();")
    return CPP_PROGRAM.format(functions="\n".join(functions), calls="\n".join(calls))


@pytest.mark.skipif("GRADWIRE_BUILD" not in os.environ, reason="GRADWIRE_BUILD is unset")
def test_cpp_compiles_as_the_guide_says_and_runs(tmp_path):
    [project] = snippets(ROOT / "docs/cpp.md", "cmake")
    (tmp_path / "CMakeLists.txt").write_text(project.code)
    (tmp_path / "train.cpp").write_text(cpp_program())
    prefix = tmp_path / "prefix"
    build = os.environ["GRADWIRE_BUILD"]
    run("cmake", "--install", build, "--component", "development", "--prefix", prefix)
    run(
        *("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"),
        *(f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"),
    )
    run("cmake", "--build", tmp_path / "build", timeout=600)
    assert "all snippets ran" in run(tmp_path / "build/train", cwd=tmp_path, timeout=120)


def test_the_guide_shows_the_method_that_is_tested():
    shown = "\n".join(snippet.code for snippet in snippets(GUIDE, "cpp"))
    assert shown == (EXAMPLE / "cyclic.cpp").read_text()


def test_the_guide_adds_the_line_that_is_tested():
    [change] = snippets(GUIDE, "diff")
    [(file, line)] = re.findall(r"^--- (\S+)\n\+(.*)$", change.code, re.MULTILINE)
    assert (ROOT / file).exists()
    cmake = (EXAMPLE / "CMakeLists.txt").read_text()
    assert f"set(registry ${{PROJECT_SOURCE_DIR}}/{file})" in cmake
    escaped = line.replace("\\", "\\\\")
    assert f'string(REPLACE "  METHOD(adacomp)" "{escaped}\\n  METHOD(adacomp)"' in cmake


@pytest.mark.parametrize("method", gradwire.methods())
def test_every_method_and_option_is_documented(method):
    table = re.search(r"^## Methods\n(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    assert f"\n| `{method}`" in table
    page = (ROOT / "docs/algorithms.md").read_text()
    section = re.search(rf"^## `{method}`\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)[1]
    if "those of `powersgd`" in section:
        section += re.search(r"^## `powersgd`\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)[1]
    options = gradwire.methods()[method]["options"]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(options)
    for name, option in options.items():
        default = json.dumps(option["default"]) if isinstance(option["default"], str) else None
        shown = f"`{default}`" if default else str(option["default"])
        assert f"| `{name}` | {shown} |" in section, name
