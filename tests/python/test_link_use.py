"""Large messages use both directions of a link at the same time, even if one worker is late."""

import subprocess
import sys
from pathlib import Path

from built import COMMAND, needs_build
from launchers import skip_without_lab

WORKER = Path(__file__).parent / "link_use_worker.py"
BYTES_PER_SECOND = 100e6 / 8


@needs_build
def test_half_sends_both_ways_at_once(tmp_path):
    out = tmp_path / "seconds"
    command = [COMMAND, "lab", "--hosts", "2", "--rate", "100mbit", "--", sys.executable]
    done = subprocess.run([*command, WORKER, out], capture_output=True, text=True, timeout=120)
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr
    # Each worker sends half of the elements, two bytes each, and then its half of the sums.
    least = 2 * 2048 * 2048 / BYTES_PER_SECOND
    # One direction after the other would take twice as long.
    assert least < float(out.read_text()) < 1.6 * least
