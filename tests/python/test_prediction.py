"""The comparison of predictions with measurements, on a model that takes no time."""

import json
import os
import subprocess
import sys

import pytest
from built import BUILD, ROOT, needs_build
from launchers import skip_without_lab

METHODS = {"allreduce", "half", "sign", "topk", "powersgd", "acpsgd", "adacomp"}


@needs_build
@pytest.mark.alone
def test_predictions_are_compared_with_what_the_lab_measures(tmp_path):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    out = tmp_path / "rows.json"
    command = [sys.executable, "-m", "bench.prediction", "--models", "mlp-small"]
    done = subprocess.run(
        [*command, "--rates", "20mbit,100mbit", "--json", str(out)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": ":".join(paths), "GRADWIRE_BUILD": str(BUILD)},
    )
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {(row["rate"], row["method"]): row for row in json.loads(out.read_text())}
    assert set(rows) == {(rate, method) for rate in ("20mbit", "100mbit") for method in METHODS}
    # 1.3 MB of gradient: the link is nearly all of the step, so the model cannot be far off. The
    # profile is of 100 Mb/s, and no method but this one takes that long.
    for rate, least in (("20mbit", 0.5), ("100mbit", 0.1)):
        plain = rows[rate, "allreduce"]
        assert plain["measured"] > least
        assert abs(plain["error"]) < 0.25
        assert plain["predicted"] > 1.5 * rows[rate, "half"]["predicted"]
    assert "median error" in done.stdout
    assert "allreduce before" not in done.stdout  # under "order wrong"
