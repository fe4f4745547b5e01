"""gradwire.Compressor: the explicit object, without DDP, in worlds of real processes."""

import threading
import time

import gradwire
import pytest
import torch
import torch.distributed as dist
from old_states import Feeder, gradients
from torch.nn.parallel import DistributedDataParallel
from training import METHODS
from worlds import RaisedError, run_world, run_world_with_errors

STEPS = 4


def named(tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    names = [name for name, _ in Feeder().named_parameters()]
    return dict(zip(names, (tensor.clone() for tensor in tensors), strict=True))


def beside_attach(worker: int) -> dict[str, bool]:
    """Whether the two give the same bits, by method."""
    same = {}
    for method in METHODS:
        ddp = DistributedDataParallel(Feeder())
        gw = gradwire.attach(ddp, method)
        compressor = gradwire.Compressor(Feeder().named_parameters(), method)
        same[method] = True
        for step in range(STEPS):
            mine = gradients(worker, step)
            ddp.zero_grad()
            ddp(mine).backward()
            results = named(mine)
            compressor.all_reduce(results)
            for name, parameter in ddp.module.named_parameters():
                same[method] &= results[name].equal(parameter.grad)
        same[method] &= compressor.residual_norm() == gw.residual_norm()
        same[method] &= compressor.stats()["sent_bytes"] == gw.stats()["sent_bytes"]
    return same


def test_gives_the_bits_that_attach_gives():
    for outcome in run_world(2, beside_attach):
        assert outcome == dict.fromkeys(METHODS, True)


def own_loop(worker: int, resume_after: int | None) -> list[torch.Tensor]:
    """A training loop that starts each gradient as soon as autograd has accumulated it."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def compressor() -> gradwire.Compressor:
        return gradwire.Compressor(model.named_parameters(), "acpsgd", rank=2)

    c = compressor()
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: c.start({name: p.grad}))
    for step in range(6):
        if step == resume_after:
            state = c.state_dict()
            c = compressor()
            c.load_state_dict(state)
        generator = torch.Generator().manual_seed(100 * step + worker)
        optimizer.zero_grad()
        model(torch.randn(8, 20, generator=generator)).square().sum().backward()
        c.finish()
        optimizer.step()
    assert c.stats()["steps"] == 6
    return [p.detach().clone() for p in model.parameters()]


def test_serves_a_loop_of_ones_own_and_resumes_exactly():
    plain = run_world(2, own_loop, None)
    resumed = run_world(2, own_loop, 3)
    for weights in [*plain, *resumed]:
        assert all(a.equal(b) for a, b in zip(weights, plain[0], strict=True))


def asks_while_waiting(worker: int) -> tuple[float, int, str]:
    c = gradwire.Compressor(Feeder().named_parameters(), "topk")
    c.all_reduce(named(gradients(worker, 0)))
    dist.barrier()
    if worker == 1:
        time.sleep(1.0)  # the other one's step waits for this one
    waiting = threading.Thread(target=c.all_reduce, args=(named(gradients(worker, 1)),))
    waiting.start()
    time.sleep(0.2)
    begin = time.perf_counter()
    stats = c.stats()
    taken = time.perf_counter() - begin
    assert waiting.is_alive() or worker == 1
    waiting.join()
    return taken, stats["steps"], repr(c)


def test_tells_its_stats_while_a_step_waits():
    taken, steps, text = run_world(2, asks_while_waiting)[0]
    assert steps == 2
    # The peer keeps the step waiting for 0.8 s more: a blocked call would take as long.
    assert taken < 0.4
    assert text.startswith("<gradwire.Compressor: topk density=0.01 ")
    assert " 2 workers, 2 steps, code ratio " in text


def wrong_uses(worker: int) -> list[str]:
    texts = []

    def refused(kind: type[Exception], use) -> None:
        with pytest.raises(kind) as raised:
            use()
        texts.append(str(raised.value))

    parameters = list(Feeder().named_parameters())
    refused(ValueError, lambda: gradwire.Compressor(parameters, "auto"))
    refused(ValueError, lambda: gradwire.Compressor(parameters, "topk", rank=3))
    refused(ValueError, lambda: gradwire.Compressor([], "topk"))
    refused(ValueError, lambda: gradwire.Compressor(parameters, "topk", skip="bias"))
    c = gradwire.Compressor(parameters, "topk")
    refused(ValueError, lambda: c.start({"weight": torch.zeros(3)}))
    refused(ValueError, lambda: c.start({"bias": torch.zeros(3)}))
    refused(ValueError, lambda: c.start({"bias": None}))
    c.all_reduce(named(gradients(worker, 0)))
    return texts


def test_refuses_wrong_use_on_all_workers_and_goes_on():
    for texts in run_world(2, wrong_uses):
        assert "auto" in texts[0]
        assert 'has no option "rank"' in texts[1]
        assert "no parameter" in texts[2]
        assert "skip" in texts[3]
        assert '"weight" belongs to no parameter' in texts[4]
        assert "[3]" in texts[5]
        assert "[16]" in texts[5]


def disagrees(worker: int) -> None:
    method = "topk" if worker == 0 else "sign"
    gradwire.Compressor(Feeder().named_parameters(), method, handshake_timeout=20)


def test_workers_that_disagree_are_told():
    for outcome in run_world_with_errors(2, disagrees):
        assert isinstance(outcome, RaisedError)
        assert outcome.kind == "RuntimeError"
        assert "method" in outcome.message
