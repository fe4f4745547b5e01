"""torch.profiler shows the parts of a step by name."""

import json

from torch.profiler import ProfilerActivity, profile
from training import Training
from worlds import run_world


def spans(worker: int, folder: str) -> dict[str, int]:
    training = Training("acpsgd")
    training.step(worker, 0)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        training.step(worker, 1)
    trace = f"{folder}/trace{worker}.json"
    profiler.export_chrome_trace(trace)  # what Perfetto opens
    with open(trace) as file:
        names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
    return {name: names.count(name) for name in set(names) if "gradwire" in name or "gloo" in name}


def test_the_parts_of_a_step_are_named(tmp_path):
    for names in run_world(2, spans, str(tmp_path)):
        assert names["gradwire::encode"] >= 1
        assert names["gradwire::collective"] >= 1
        assert names["gradwire::decode"] >= 1
