"""`gradwire train` and `gradwire compare`, with processes and threads, on data the test makes."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy
import pytest
import torch
from built import COMMAND, ROOT, needs_build
from gradwire import Stats
from launchers import skip_without_lab
from worlds import free_port

TRAIN_KEYS = {
    "method", "options", "workers", "steps", "epochs", "wire", "early_code_ratio_by_kind",
    "seconds_per_step", "test_loss", "losses",
}  # fmt: skip
EPOCH_KEYS = {"epoch", "step", "train_loss", "test_loss", "test_accuracy", "seconds"}

pytestmark = needs_build


def environment() -> dict[str, str]:
    return os.environ | {"GRADWIRE_PYTHON": sys.executable, "GLOO_SOCKET_IFNAME": "lo"}


def gradwire(*arguments: object, timeout: float = 180) -> subprocess.CompletedProcess:
    command = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=timeout
    )


def train(tmp_path: Path, *arguments: object) -> dict:
    file = tmp_path / "result.json"
    done = gradwire("train", *arguments, "--json", file)
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


def write_idx(path: Path, values: numpy.ndarray) -> None:
    header = struct.pack(">I", 0x0800 + values.ndim) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    path.write_bytes(header + values.astype(numpy.uint8).tobytes())


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> str:
    """Ten patterns in noise, which a model learns within two epochs."""
    folder = tmp_path_factory.mktemp("images")
    generator = numpy.random.default_rng(5)
    patterns = generator.integers(0, 200, (10, 28, 28))
    for part, count in (("train", 640), ("t10k", 200)):
        labels = generator.integers(0, 10, count)
        noise = generator.integers(0, 56, (count, 28, 28))
        write_idx(folder / f"{part}-images-idx3-ubyte", patterns[labels] + noise)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
    return f"idx:{folder}"


@pytest.fixture(scope="module")
def colours(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("colours")
    generator = numpy.random.default_rng(6)
    patterns = generator.integers(0, 200, (10, 3072))
    for name, count in (("data_batch_1.bin", 32), ("test_batch.bin", 20)):
        labels = generator.integers(0, 10, (count, 1))
        pixels = patterns[labels[:, 0]] + generator.integers(0, 56, (count, 3072))
        records = numpy.concatenate([labels, pixels], 1).astype(numpy.uint8)
        (folder / name).write_bytes(records.tobytes())
    return f"cifar10:{folder}"


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("text") / "text"
    file.write_text("the quick brown fox jumps over the lazy dog. " * 300)
    return f"text:{file}"


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> str:
    """Three "words", which are tones of different pitch."""
    folder = tmp_path_factory.mktemp("speech")
    for label, hertz in (("low", 300), ("mid", 900), ("high", 2500)):
        for index in range(6):
            samples = [
                int(9000 * math.sin(2 * math.pi * (hertz + 10 * index) * i / 8000))
                for i in range(6000)
            ]
            with wave.open(str(folder / f"{label}_tone_{index}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return f"wav:{folder}"


LITTLE = ["--epochs", 2, "--batch", 8, "--lr", 0.05]


def figures(result: dict) -> list[tuple]:
    return [(e["train_loss"], e["test_loss"], e["test_accuracy"]) for e in result["epochs"]]


def losses(result: dict) -> list[tuple]:
    return [(entry["step"], entry["loss"]) for entry in result["losses"]]


def test_it_learns_and_tells_everything(tmp_path, images):
    result = train(tmp_path, "--data", images, "--model", "cnn", "--method", "powersgd:rank=2",
                   "--workers", 2, *LITTLE)  # fmt: skip
    assert result.keys() >= TRAIN_KEYS
    assert result["wire"].keys() == Stats.__annotations__.keys()
    assert all(epoch.keys() >= EPOCH_KEYS for epoch in result["epochs"])
    assert [epoch["epoch"] for epoch in result["epochs"]] == [1, 2]
    assert (result["method"], result["options"], result["workers"]) == ("powersgd", {"rank": 2}, 2)
    assert result["steps"] == result["wire"]["steps"] == 2 * 640 // 16
    assert result["epochs"][-1]["test_accuracy"] > 0.5  # by chance: 0.1
    assert result["wire"]["code_ratio_by_kind"]["dense"] > 10
    assert result["early_code_ratio_by_kind"]["dense"] > 10
    again = train(tmp_path, "--data", images, "--model", "cnn", "--method", "powersgd:rank=2",
                  "--workers", 2, *LITTLE)  # fmt: skip
    assert figures(again) == figures(result)


@pytest.mark.parametrize(
    ("model", "data"),
    [("mlp", "images"), ("resnet18", "colours"), ("cnn", "colours"), ("lstm", "text"),
     ("gpt", "text"), ("dnn", "speech")],
)  # fmt: skip
def test_every_model(tmp_path, request, model, data):
    spec = request.getfixturevalue(data)
    result = train(tmp_path, "--data", spec, "--model", model, "--method", "adacomp", "--workers",
                   2, "--epochs", 2, "--batch", 4, "--optimizer", "adam",
                   "--lr", 0.001)  # fmt: skip
    losses = [epoch["train_loss"] for epoch in result["epochs"]]
    assert losses[1] < losses[0]


MODERN = ["--model", "gpt", "--optimizer", "adamw", "--lr", 0.001, "--weight-decay", 0.1,
          "--clip", 1, "--cosine", "--warmup", 0.5]  # fmt: skip


def test_two_workers_train_gpt_as_one_does_with_the_whole_batch(tmp_path, text):
    common = ["--data", text, *MODERN, "--method", "allreduce", "--steps", 8]
    one = train(tmp_path, *common, "--workers", 1, "--batch", 8)
    two = train(tmp_path, *common, "--workers", 2, "--batch", 4)
    for ones, twos in zip(one["losses"], two["losses"], strict=True):
        assert twos["loss"] == pytest.approx(ones["loss"], rel=1e-3)
    assert one["losses"][-1]["loss"] < one["losses"][0]["loss"] - 0.1
    assert two["test_loss"] == pytest.approx(one["test_loss"], rel=1e-3)


def test_the_first_weights_of_gpt_prefer_no_character(tmp_path, text):
    result = train(tmp_path, "--data", text, "--model", "gpt", "--lr", 0, "--steps", 1,
                   "--learners", 1)  # fmt: skip
    assert result["test_loss"] == pytest.approx(math.log(28), abs=0.1)  # 26 letters, ".", " "


def test_a_method_may_start_after_some_steps(tmp_path, images):
    common = ["--data", images, "--model", "mlp", "--learners", 2, "--batch", 4, "--steps", 80]
    plain = train(tmp_path, *common, "--method", "allreduce")
    late = train(tmp_path, *common, "--method", "sign:block=0,start_after=80")
    assert losses(late) == losses(plain)
    assert (late["start_after"], late["wire"]["code_ratio"]) == (80, 1)
    half = train(tmp_path, *common, "--method", "sign:block=0,start_after=40")
    assert losses(half)[:40] == losses(plain)[:40]
    assert losses(half)[41:] != losses(plain)[41:]
    assert half["wire"]["code_ratio"] == pytest.approx(2, rel=0.1)


def test_augmented_images_depend_on_the_seed_and_not_on_the_workers(tmp_path, images):
    common = ["--data", images, "--model", "mlp", "--method", "allreduce", "--augment",
              "--steps", 8]  # fmt: skip
    one = train(tmp_path, *common, "--learners", 1, "--batch", 8)
    two = train(tmp_path, *common, "--learners", 2, "--batch", 4)
    for ones, twos in zip(one["losses"], two["losses"], strict=True):
        assert twos["loss"] == pytest.approx(ones["loss"], rel=1e-3)
    plain = train(tmp_path, *common[:-3], "--steps", 8, "--learners", 2, "--batch", 4)
    assert (two["augment"], plain["augment"]) == (True, False)
    assert losses(plain) != losses(two)


def test_only_training_images_are_augmented(tmp_path):
    # A model that does not learn has the same loss on the same images.
    pixels = numpy.zeros((64, 28, 28))
    pixels[:, 10:18, 4:12] = 200
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", pixels)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", numpy.arange(64) % 10)
    common = ["--data", f"idx:{tmp_path}", "--model", "mlp", "--lr", 0, "--learners", 2,
              "--epochs", 1, "--batch", 4]  # fmt: skip
    (plain,) = train(tmp_path, *common)["epochs"]
    (augmented,) = train(tmp_path, *common, "--augment")["epochs"]
    assert plain["train_loss"] == pytest.approx(plain["test_loss"], rel=1e-5)
    assert augmented["test_loss"] == plain["test_loss"]
    assert augmented["train_loss"] != pytest.approx(plain["train_loss"], rel=1e-5)


def test_steps_cut_the_last_epoch(tmp_path, images):
    common = ["--data", images, "--model", "mlp", "--learners", 2, "--batch", 4]
    result = train(tmp_path, *common, "--steps", 190)  # an epoch has 80
    assert result["steps"] == result["wire"]["steps"] == 190
    assert [(e["epoch"], e["step"]) for e in result["epochs"]] == [(1, 80), (2, 160), (3, 190)]
    assert result["test_loss"] == result["epochs"][-1]["test_loss"]
    whole = train(tmp_path, *common, "--epochs", 3)
    assert figures(whole)[:2] == figures(result)[:2]
    assert train(tmp_path, *common, "--steps", 240)["test_loss"] == whole["test_loss"]


@pytest.mark.parametrize("steps", [3, 100, 190])
def test_losses_are_means_over_every_hundredth(tmp_path, images, steps):
    result = train(tmp_path, "--data", images, "--model", "mlp", "--learners", 2, "--batch", 4,
                   "--steps", steps)  # fmt: skip
    losses = result["losses"]
    assert len(losses) == min(steps, 100)
    ends = [entry["step"] for entry in losses]
    assert ends[-1] == steps
    lengths = numpy.diff([0, *ends])
    assert set(lengths) <= {math.floor(steps / len(losses)), math.ceil(steps / len(losses))}
    # Both means are over the same steps.
    starts = [0, *(epoch["step"] for epoch in result["epochs"])]
    by_epoch = numpy.dot(numpy.diff(starts), [epoch["train_loss"] for epoch in result["epochs"]])
    assert numpy.dot(lengths, [entry["loss"] for entry in losses]) == pytest.approx(by_epoch)
    seconds = [entry["seconds"] for entry in losses]
    assert all(numpy.diff([0, *seconds]) > 0)
    assert seconds[-1] == pytest.approx(sum(epoch["seconds"] for epoch in result["epochs"]))


def weights(folder: Path, step: int) -> dict[str, torch.Tensor]:
    saved = torch.load(folder / f"step{step}-worker0.pt", weights_only=False)
    return {name: value for name, value in saved.items() if name.startswith("model/")}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_only_matrices_decay(tmp_path, images, optimizer):
    def after_one_step(name: str, lr: float, decay: float) -> dict[str, torch.Tensor]:
        train(tmp_path, "--data", images, "--model", "mlp", "--learners", 2, "--steps", 1, "--lr",
              lr, "--optimizer", optimizer, "--weight-decay", decay,
              "--checkpoint", tmp_path / name)  # fmt: skip
        return weights(tmp_path / name, 1)

    first = after_one_step("first", 0, 0)
    plain = after_one_step("plain", 0.1, 0)
    decayed = after_one_step("decayed", 0.1, 0.5)
    for name, weight in first.items():
        change = 0.1 * 0.5 * weight if weight.dim() >= 2 else torch.zeros_like(weight)
        torch.testing.assert_close(plain[name] - decayed[name], change, atol=1e-6, rtol=0)


def test_a_clipped_step_is_as_long_as_the_learning_rate_says(tmp_path, images):
    # An epoch is one step here, and each saves. Three quarters of the way from the warm-up to the
    # end are done before the last step.
    common = ["--data", images, "--model", "mlp", "--method", "topk", "--learners", 2, "--batch",
              320, "--momentum", 0, "--lr", 0.5, "--clip", 0.01, "--warmup", 2]  # fmt: skip
    for schedule, rate in (([], 0.5), (["--cosine"], 0.5 * 0.5 * (1 + math.cos(0.75 * math.pi)))):
        folder = tmp_path / f"kept{len(schedule)}"
        train(tmp_path, *common, *schedule, "--steps", 6, "--checkpoint", folder)
        before, after = weights(folder, 5), weights(folder, 6)
        squares = sum((after[name] - before[name]).double().square().sum() for name in after)
        assert math.sqrt(squares) == pytest.approx(rate * 0.01, rel=1e-3)


def test_learners_as_threads_learn_as_workers_do(tmp_path, images):
    common = ["--data", images, "--model", "mlp", "--method", "powersgd", *LITTLE]
    workers = train(tmp_path, *common, "--workers", 4)
    threads = train(tmp_path, *common, "--learners", 4)
    assert threads["workers"] == 4
    # The sums of four have another order.
    assert figures(threads)[-1] == pytest.approx(figures(workers)[-1], abs=0.03)
    assert threads["wire"]["sent_bytes"] == workers["wire"]["sent_bytes"]
    assert figures(train(tmp_path, *common, "--learners", 4)) == figures(threads)


@pytest.mark.alone
def test_data_and_bookkeeping_take_little_of_even_a_short_step(tmp_path):
    shares = []
    for _ in range(3):  # a busy machine may spoil some
        result = train(tmp_path, "--data", "fashion-mnist", "--model", "mlp",
                       "--method", "allreduce", "--learners", 2, "--batch", 4, "--epochs", 1,
                       "--train-limit", 8000)  # fmt: skip
        (epoch,) = result["epochs"]
        shares.append(epoch["seconds_by_part"]["load"] / epoch["seconds"])
        # It is 1 % of a step of 1.4 ms. With a thread for every batch it was 4 to 5 %.
        if shares[-1] < 0.025:
            return
    pytest.fail(f"it takes these shares of a step: {shares}")


@pytest.mark.parametrize("method", ["allreduce", "sign", "powersgd", "adacomp"])
def test_two_learners_come_to_the_figures_of_two_workers(tmp_path, images, method):
    common = ["--data", images, "--model", "mlp", "--method", method, *LITTLE]
    workers = train(tmp_path, *common, "--workers", 2)
    threads = train(tmp_path, *common, "--learners", 2)
    assert figures(threads) == figures(workers)  # a sum of two has only one order


@pytest.mark.parametrize("method", ["adacomp", "sign:mode=vote"])
def test_128_learners(tmp_path, images, method):
    result = train(tmp_path, "--data", images, "--model", "mlp", "--method", method, "--learners",
                   128, "--epochs", 1, "--batch", 1, "--lr", 0.001, "--train-limit", 256,
                   "--test-limit", 100)  # fmt: skip
    assert (result["workers"], result["steps"]) == (128, 2)


def interrupt(command: list[str], after: str) -> tuple[int, str]:
    """Sends Ctrl-C when the output on a terminal matches `after`. Returns status and output."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command, env=environment(), stdout=follower, stderr=follower, start_new_session=True
    )
    os.close(follower)
    shown, interrupted, deadline = "", False, time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                shown += os.read(leader, 65536).decode()
            except OSError:  # the other end is closed
                break
        if not interrupted and re.search(after, shown):
            process.send_signal(signal.SIGINT)
            interrupted = True
        if process.poll() is not None and not select.select([leader], [], [], 0.1)[0]:
            break
    os.close(leader)
    process.kill()
    return process.wait(), shown


LONG_MLP = ["--model", "mlp", "--batch", "4", "--lr", "0.01"]
LONG_GPT = [*map(str, MODERN), "--batch", "1", "--train-limit", "24", "--test-limit", "8"]


@pytest.mark.parametrize(
    ("crowd", "data", "model", "steps"),
    [
        ("--workers", "images", LONG_MLP, 80),
        ("--learners", "images", LONG_MLP, 80),
        ("--learners", "text", LONG_GPT, 12),
    ],
)
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(tmp_path, request, crowd, data, model, steps):
    common = ["train", "--data", request.getfixturevalue(data), *model, "--method", "topk", crowd,
              "2", "--epochs", "8"]  # fmt: skip
    kept = ["--checkpoint", str(tmp_path / "kept"), "--json", str(tmp_path / "resumed.json")]
    status, shown = interrupt([str(COMMAND), *common, *kept], r"epoch [2-6]/8 \[")
    assert status == 130, shown
    assert "ETA" in shown
    assert "interrupted; go on with --resume" in shown
    done = gradwire(*common, *kept, "--resume")
    assert done.returncode == 0, done.stderr
    assert "resumed after step" in done.stdout
    whole = tmp_path / "whole.json"
    assert gradwire(*common, "--json", whole).returncode == 0
    resumed = json.loads((tmp_path / "resumed.json").read_text())
    uninterrupted = json.loads(whole.read_text())
    assert figures(resumed) == figures(uninterrupted)
    assert losses(resumed) == losses(uninterrupted)
    assert resumed["steps"] == resumed["wire"]["steps"] == 8 * steps
    # Counts go on after a resume. They differ a little: the first payload after it has no agreed
    # size and may need a second exchange.
    for key in ("gradient_bytes", "payload_bytes", "sent_bytes", "dense_bytes"):
        assert resumed["wire"][key] == pytest.approx(uninterrupted["wire"][key], rel=1e-3), key


def test_a_checkpoint_of_another_training_is_refused(tmp_path, images):
    kept = tmp_path / "kept"
    common = ["train", "--data", images, "--model", "mlp", "--method", "topk", "--batch", "4"]
    common += ["--checkpoint", kept, "--epochs"]
    assert gradwire(*common, 1, "--workers", 2).returncode == 0
    saved = sorted(kept.iterdir())
    for arguments, message in (
        (["--workers", 2], "has checkpoints already: go on from them with --resume"),
        (["--workers", 3, "--resume"], "was saved with workers 2, here it is 3"),
        (["--workers", 1, "--resume"], "was saved with workers 2, here it is 1"),
        (["--workers", 2, "--resume", "--lr", "0.5"], "was saved with lr 0.03, here it is 0.5"),
        (["--workers", 2, "--resume", "--optimizer", "adam"], 'optimizer "sgd", here it is "adam"'),
    ):
        done = gradwire(*common, 1, *arguments)
        assert done.returncode != 0
        assert message in done.stderr
        assert sorted(kept.iterdir()) == saved
    longer = gradwire(*common, 2, "--workers", 2, "--resume")
    assert "resumed after step 80" in longer.stdout, longer.stderr
    shorter = gradwire(*common, 1, "--workers", 2, "--resume")
    assert "was saved after step 160, but the training has only 80 steps" in shorter.stderr


def test_a_training_may_be_resumed_with_more_steps(tmp_path, images):
    common = ["--data", images, "--model", "mlp", "--learners", 2, "--batch", 4]
    kept = ["--checkpoint", tmp_path / "kept"]
    train(tmp_path, *common, *kept, "--steps", 110)
    resumed = train(tmp_path, *common, *kept, "--steps", 190, "--resume")
    whole = train(tmp_path, *common, "--steps", 190)
    assert figures(resumed) == figures(whole)
    assert losses(resumed) == losses(whole)
    assert [epoch["step"] for epoch in resumed["epochs"]] == [80, 160, 190]


def test_a_cosine_is_resumed_with_the_same_length_only(tmp_path, images):
    common = ["train", "--data", images, "--model", "mlp", "--learners", 2, "--cosine"]
    common += ["--checkpoint", tmp_path / "kept", "--steps"]
    assert gradwire(*common, 10).returncode == 0
    again = gradwire(*common, 10, "--resume")
    assert "resumed after step 10" in again.stdout, again.stderr
    longer = gradwire(*common, 20, "--resume")
    assert longer.returncode != 0
    assert "was saved with steps 10, here it is 20" in longer.stderr
    other = gradwire(*common, 10, "--resume", "--clip", 2)
    assert "was saved with clip 0.0, here it is 2.0" in other.stderr


def test_a_diverged_training_resumes(tmp_path, images):
    common = ["--data", images, "--model", "mlp", "--learners", 2, "--lr", 1000,
              "--method", "allreduce", "--checkpoint", tmp_path / "kept"]  # fmt: skip
    train(tmp_path, *common, "--epochs", 1)
    result = train(tmp_path, *common, "--epochs", 2, "--resume")
    assert result["losses"][-1]["loss"] is None
    assert [epoch["test_loss"] for epoch in result["epochs"]] == [None, None]


def test_two_worlds_have_room_on_one_machine(tmp_path, images):
    command = [COMMAND, "train", "--data", images, "--model", "mlp", "--workers", "2"]
    command += ["--epochs", "20", "--batch", "4"]
    both = [subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate(timeout=120) and process.returncode for process in both] == [0, 0]


def test_a_command_that_is_none_is_named():
    done = gradwire("trian")
    assert done.returncode == 1
    assert 'there is no command "trian"; there are: train, compare' in done.stderr


def test_a_killed_worker_ends_all(tmp_path, images):
    command = [str(COMMAND), "train", "--data", images, "--model", "mlp", "--workers", "3",
               "--epochs", "4000"]  # fmt: skip
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert "epoch 1/4000" in process.stdout.readline()
    workers = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(workers) == 3
    os.kill(int(workers[1]), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_it_joins_the_world_of_torchrun(tmp_path, images):
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
               "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--no-python",
               str(COMMAND), "train", "--data", images, "--model", "mlp", "--workers", "7",
               "--json", str(file), "--epochs", "1"]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["workers"] == 2


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
def test_it_joins_the_world_of_mpirun(tmp_path, images):
    file = tmp_path / "result.json"
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "-x",
               "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={free_port()}", str(COMMAND),
               "train", "--data", images, "--model", "mlp", "--json", str(file),
               "--epochs", "1"]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["workers"] == 2


def test_compare_prints_one_table_and_writes_a_report(tmp_path, images):
    report = tmp_path / "report"
    done = gradwire("compare", "--methods", "allreduce,topk:density=0.05,dtype=bf16,adacomp",
                    "--data", images, "--workers", 2, *LITTLE, "--report", report,
                    "--json", tmp_path / "all.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = ["allreduce", "topk:density=0.05,dtype=bf16", "adacomp"]
    results = json.loads((tmp_path / "all.json").read_text())["results"]
    assert [result["name"] for result in results] == names
    assert results[1]["options"] == {"density": 0.05, "dtype": "bf16"}
    table = done.stdout[done.stdout.index("\nmethod") + 1 :].splitlines()[:4]
    assert len({len(line) for line in table}) == 1  # aligned
    assert [line.split()[0] for line in table[1:]] == names
    page = (report / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 5
    assert not re.search(r'src="(?!data:)', page)
    pictures = {"accuracy_time", "accuracy_bytes", "rate_conv", "rate_dense", "step_time"}
    assert {file.stem for file in report.glob("*.png")} == pictures


def test_a_report_of_several_numbers_of_learners_shows_what_each_has_reached(tmp_path, images):
    files = [tmp_path / f"{learners}.json" for learners in (1, 4)]
    for file in files:
        done = gradwire("compare", "--methods", "allreduce,adacomp", "--data", images, "--learners",
                        file.stem, *LITTLE, "--json", file)  # fmt: skip
        assert done.returncode == 0, done.stderr
    diverged = json.loads(files[0].read_text())
    diverged["results"][1]["epochs"][-1]["test_loss"] = None
    files[0].write_text(json.dumps(diverged))
    report = tmp_path / "report"
    command = [sys.executable, ROOT / "python/gradwire/report.py", *files, report]
    subprocess.run(command, check=True, timeout=120)
    assert (report / "accuracy_learners.png").stat().st_size > 10_000
    page = (report / "index.html").read_text()
    assert "Accuracy by the number of learners" in page
    for name in ("allreduce, 1 learners", "adacomp, 4 learners"):
        assert f"<td>{name}</td>" in page
    assert "<td>not finite</td>" in page


def test_a_text_that_is_too_short_is_named(tmp_path):
    file = tmp_path / "text"
    file.write_text("to be or not to be " * 10)
    done = gradwire("train", "--data", f"text:{file}", "--model", "lstm", "--workers", 1)
    assert done.returncode != 0
    assert "a text of 19 characters is too short" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "transformer"], 'there is no "transformer"; there are: cnn, dnn'),
        (["--model", "lstm"], "lstm is for characters"),
        (["--method", "magic"], 'there is no method "magic"; there are: allreduce'),
        (["--method", "topk:rank=3"], 'there is no option of topk "rank"; there are: density'),
        (["--method", "topk:density=much"], '"density=much" has a value of the wrong type'),
        (["--data", "idx:/nowhere"], "/nowhere"),
        (["--resume"], "--resume needs --checkpoint"),
        (["--batch", "1000"], "fewer training samples"),
        (["--method", "acpsgd:rank=0"], "rank must be an integer >= 1"),
        (["--json", "/nowhere/results.json"], "cannot write /nowhere/results.json"),
        (["--learners", "2", "--json", "/nowhere/results.json"], "cannot write /nowhere"),
        (["--steps", "5", "--epochs", "3"], "--epochs excludes --steps"),
        (["--cosine", "--decay-at", "3"], "--decay-at excludes --cosine"),
        (["--method", "topk:start_after=soon"], '"start_after=soon" has a value of the wrong'),
        (["--data", f"text:{__file__}", "--model", "lstm", "--augment"], "--augment is for images"),
        (["--seed", "-1"], "--seed: Value -1 is negative"),
        (["--decay-at", "-5"], "--decay-at: Value -5 not in range"),
        *(
            ([option, "nan"], f"{option}: Value nan not in range")
            for option in ("--lr", "--momentum", "--weight-decay", "--clip", "--warmup", "--decay")
        ),
    ],
)
def test_wrong_use_is_named(images, arguments, message):
    data = [] if "--data" in arguments else ["--data", images]
    done = gradwire("train", *data, "--workers", 2, *arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_link_may_be_emulated(tmp_path, images):
    seconds = {}
    for rate in ("10mbit", "unlimited"):
        result = train(tmp_path, "--data", images, "--model", "mlp", "--method", "allreduce",
                       "--workers", 2, "--epochs", 1, "--batch", 80, "--link", rate)  # fmt: skip
        seconds[rate] = result["seconds_per_step"]
    # Sending 2.2 MB in each direction takes 1.7 s at 10 Mb/s.
    assert seconds["10mbit"] > 1.0
    assert seconds["unlimited"] < 0.5 * seconds["10mbit"]
