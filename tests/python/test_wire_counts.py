"""The bytes that `stats()` reports are those that the interface counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from built import COMMAND
from launchers import skip_without_lab
from training import VARIANTS

HERE = Path(__file__).parent


@pytest.mark.parametrize("hosts", [2, 3])
def test_sent_bytes_are_what_left_the_interface(hosts):
    program = [sys.executable, str(HERE / "wire_count_worker.py")]
    command = [COMMAND, "lab", "--hosts", str(hosts), "--rate", "unlimited", "--"]
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    outcome = subprocess.run(
        [*command, *program], capture_output=True, text=True, timeout=300, env=environment
    )
    skip_without_lab(outcome)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    lines = [line[line.index("{") :] for line in outcome.stdout.splitlines() if "figures" in line]
    reports = [json.loads(line) for line in lines]
    assert len(reports) == hosts
    for report in reports:
        for variant in VARIANTS:
            steps = report["figures"][variant]
            # So much that what TCP adds, whatever the payload, does not count.
            assert all(step["said"] >= 2.5e5 * (hosts - 1) / hosts for step in steps), (
                variant,
                steps,
            )
            # The best, because TCP sends things twice where a busy host answers late.
            ratio = max(step["said"] / step["counted"] for step in steps)
            assert ratio == pytest.approx(1, abs=0.03), (variant, steps)
