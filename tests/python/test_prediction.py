"""The comparison of predictions with measurements, on a model that takes no time."""

import json

import pytest
from built import needs_build
from launchers import run_bench

METHODS = {"allreduce", "half", "sign", "topk", "powersgd", "acpsgd", "adacomp"}


@needs_build
@pytest.mark.alone
def test_predictions_are_compared_with_what_the_lab_measures(tmp_path):
    out = tmp_path / "rows.json"
    place = ("--models", "mlp-small", "--rates", "20mbit,100mbit")
    done = run_bench("prediction", *place, "--json", out, timeout=180)
    rows = {(row["rate"], row["method"]): row for row in json.loads(out.read_text())}
    assert set(rows) == {(rate, method) for rate in ("20mbit", "100mbit") for method in METHODS}
    # 1.3 MB of gradient: the link is nearly all of the step, so the model cannot be far off, at
    # 20 Mb/s neither, from a profile of 100 Mb/s.
    for rate, least in (("20mbit", 0.5), ("100mbit", 0.1)):
        plain = rows[rate, "allreduce"]
        assert plain["measured"] > least
        assert abs(plain["error"]) < 0.25
        assert plain["predicted"] > 1.5 * rows[rate, "half"]["predicted"]
    assert "median error" in done.stdout
    assert "before allreduce" not in done.stdout  # under "order wrong": it is the slowest by far
