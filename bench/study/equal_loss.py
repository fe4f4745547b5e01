"""Time to equal loss: how long a method trains until it is as good as all-reduce.

The target is the mean final test loss of all-reduce plus its spread between seeds. A method whose
mean loss misses it is trained again with a longer schedule. Its time is the number of steps of the
shortest training that arrives, times its measured step on that link. `auto` changes its method as
it goes, so it is trained over every link, and its time is that of all its steps.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.study.rows import AUTO, LINKS, ROUNDS, SEEDS, TIMED_STEPS, Run, Task

STEPS = 2000
# The longest comes first: a method that misses with it is not tried with shorter ones.
STRETCHES = (1.5, 1.1, 1.25)

Results = Mapping[Run, dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    reached: bool
    steps: int = 0
    seconds: float | None = None  # without a value if the step is not measured


def final_loss(result: dict[str, Any]) -> float:
    loss = result["test_loss"]
    return math.inf if loss is None else loss  # JSON has no infinity


def mean_loss(run: Run, results: Results) -> float | None:
    losses = [
        final_loss(results[each]) for seed in SEEDS if (each := replace(run, seed=seed)) in results
    ]
    return statistics.mean(losses) if losses else None


def target(task: Task, results: Results) -> float | None:
    """Returns no value as long as there are fewer than two seeds."""
    runs = [Run(task, "allreduce", STEPS, seed) for seed in SEEDS]
    losses = [final_loss(results[run]) for run in runs if run in results]
    return statistics.mean(losses) + statistics.stdev(losses) if len(losses) > 1 else None


def candidates(run: Run) -> list[Run]:
    return [run, *(replace(run, steps=round(factor * run.steps)) for factor in STRETCHES)]


def arrives(run: Run, results: Results) -> bool | None:
    """Returns no value if that is not known yet."""
    goal, loss = target(run.task, results), mean_loss(run, results)
    return None if goal is None or loss is None else loss <= goal


def attempts(run: Run, results: Results) -> Iterable[Run]:
    """Yields the trainings that the definition asks for. The result of each must be in `results`
    when the next one is asked for."""
    yield run
    if arrives(run, results) is not False:
        return
    longest, *shorter = candidates(run)[1:]
    yield longest
    if arrives(longest, results):
        for each in shorter:
            yield each
            if arrives(each, results):
                return


def shortest(run: Run, results: Results) -> Run | None:
    arrived = [each for each in candidates(run) if arrives(each, results)]
    return min(arrived, key=lambda each: each.steps, default=None)


def step_seconds(task: Task, method: str, link: str, results: Results) -> float | None:
    runs = [Run(task, method, TIMED_STEPS, link=link, round=turn) for turn in ROUNDS]
    seconds = [results[run]["seconds_per_step"] for run in runs if run in results]
    return statistics.median(seconds) if seconds else None


def first_attempt(task: Task, method: str, link: str) -> Run:
    return Run(task, method, STEPS, link=link if method in AUTO else "")


def outcome(task: Task, method: str, link: str, results: Results) -> Outcome | None:
    """Returns no value if that is not known yet."""
    run = first_attempt(task, method, link)
    best = shortest(run, results)
    if best is None:
        longest = candidates(run)[1]
        return Outcome(reached=False) if arrives(longest, results) is False else None
    if method in AUTO:
        return Outcome(True, best.steps, results[best]["losses"][-1]["seconds"])
    step = step_seconds(task, method, link, results)
    return Outcome(True, best.steps, best.steps * step if step else None)


def first_attempts(tasks: Iterable[Task]) -> Iterable[Run]:
    for task in tasks:
        for method in task.methods:
            yield first_attempt(task, method, "")
        for method in AUTO:
            for link in LINKS:
                yield first_attempt(task, method, link)
