"""Large messages use both directions of a link at once, even if one worker comes late."""

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
    # Two bytes per element: half of it to the other worker, then the sum of half of it back.
    least = 2 * 2048 * 2048 / BYTES_PER_SECOND
    assert least < float(out.read_text()) < 1.35 * least
