"""The comparison of predictions with measurements, on a very small model."""

import json

import pytest
from built import needs_build
from launchers import run_bench
from training import METHODS


@needs_build
@pytest.mark.alone
def test_predictions_are_compared_with_what_the_lab_measures(tmp_path):
    out = tmp_path / "rows.json"
    place = ("--models", "mlp-small", "--rates", "20mbit,100mbit")
    done = run_bench("prediction", *place, "--json", out, timeout=180)
    slow, fast = json.loads(out.read_text())
    assert (slow["rate"], fast["rate"]) == ("20mbit", "100mbit")
    # The gradient has 1.3 MB, so a step is mostly communication. Then the prediction for 20 Mb/s,
    # from a profile of 100 Mb/s, must be good, too.
    for place, least in ((slow, 0.5), (fast, 0.1)):
        assert set(place["measured"]) == {*METHODS, "ddp", "auto"}
        assert set(place["predicted"]) == set(METHODS)
        assert place["measured"]["allreduce"] > least
        assert abs(place["errors"]["allreduce"]) < 0.25
        assert place["predicted"]["allreduce"] > 1.5 * place["predicted"]["half"]
        # Whatever auto chose, it compresses.
        assert place["measured"]["auto"] < 0.5 * place["measured"]["ddp"]
    assert "median error" in done.stdout
    # allreduce is by far the slowest, so it must not be in the list of wrong orders.
    assert "before allreduce" not in done.stdout
