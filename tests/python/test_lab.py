"""`gradwire lab` as a user runs it, with real namespaces, sockets and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from built import COMMAND, needs_build
from launchers import skip_without_lab

pytestmark = needs_build

NOBODY = 65534
PATIENCE = 20  # seconds, far more than anything here takes, even on a busy machine

# Bytes that tc counts for a full frame of a TCP stream, and bytes of payload in it.
FRAME, PAYLOAD = 1514, 1448

# Both hosts send to each other at the same time, for the seconds of the first argument.
SEND_BOTH_WAYS = """
import os, socket, sys, threading, time
host, seconds = int(os.environ["RANK"]), float(sys.argv[1])

def receive():
    connection, _ = listener.accept()
    buffer, received, begin = bytearray(1 << 20), 0, None
    warm = time.monotonic() + 0.3
    while count := connection.recv_into(buffer):
        now = time.monotonic()
        if begin is not None:
            received, end = received + count, now
        elif now > warm:
            begin = now
    os.write(1, b"received %f\\n" % (received * 8 / (end - begin)))

listener = socket.create_server(("", 6000))
receiver = threading.Thread(target=receive)
receiver.start()
while True:
    try:
        sender = socket.create_connection((f"host{1 - host}", 6000))
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
stop = time.monotonic() + seconds
while time.monotonic() < stop:
    sender.sendall(bytes(1 << 16))
sender.close()
receiver.join()
"""

ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
values = torch.full((1_000_000,), float(dist.get_rank() + 1))
dist.all_reduce(values)
assert values.eq(3).all()
os.write(1, b"rank %d sum %.1f\\n" % (dist.get_rank(), values[0]))  # one call, one line
dist.destroy_process_group()
"""

# Prints the seconds from host 0's request to host 1's answer. The first connection is not timed: it
# also finds the hosts' hardware addresses.
TIME_A_CONNECTION = """
import os, socket, time
if os.environ["RANK"] == "1":
    with socket.create_server(("", 6000)) as listener:
        for _ in range(2):
            listener.accept()[0].close()
else:
    for measured in (False, True):
        while True:
            begin = time.monotonic()
            try:
                socket.create_connection(("host1", 6000)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        if measured:
            print(time.monotonic() - begin)
"""

# Prints that it is ready, and then how many interrupts come within half a second.
COUNT_INTERRUPTS = """
import os, signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
os.write(1, b"ready\\n")  # one call, so that no other line comes in between
while count == 0:
    time.sleep(0.01)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.01)
os.write(1, b"interrupts %d\\n" % count)
"""


def lab(*options: object, timeout: float = PATIENCE, **how: object) -> subprocess.CompletedProcess:
    command = [str(part) for part in (COMMAND, "lab", *options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **how)


def start_lab(*options: object) -> subprocess.Popen:
    return subprocess.Popen(
        [str(part) for part in (COMMAND, "lab", *options)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def python(code: str, *args: object) -> list[object]:
    return ["--", sys.executable, "-c", code, *args]


def shell(code: str) -> list[str]:
    return ["--", "sh", "-c", code]


@pytest.fixture(scope="module", autouse=True)
def needs_lab():
    done = lab("--hosts", 2, "--rate", "unlimited", "--", "true")
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr


def wait_until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def descendants(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [pid for child in map(int, children) for pid in (child, *descendants(child))]


def alive(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def network_namespaces() -> set[str]:
    listed = subprocess.run(["lsns", "-t", "net", "-n", "-o", "NS"], capture_output=True, text=True)
    return set(listed.stdout.split())


def interfaces() -> str:
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout


def test_the_workers_find_torchruns_variables():
    shown = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]
    shown += [
        "OMP_NUM_THREADS",
        "GLOO_SOCKET_IFNAME",
        "NCCL_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "MASTER_PORT",
    ]
    # One call of write, so that lines of different hosts do not mix.
    code = f"import os; os.write(1, (' '.join(map(os.getenv, {shown})) + '\\n').encode())"
    done = lab("--hosts", 3, "--rate", "1gbit", "--threads", 2, *python(code))
    assert done.returncode == 0, done.stderr
    rest = "lab0 lab0 lab0 29500"
    assert sorted(done.stdout.splitlines()) == [
        f"0 3 0 1 10.77.0.1 2 {rest}",
        f"[host1] 1 3 0 1 10.77.0.1 2 {rest}",
        f"[host2] 2 3 0 1 10.77.0.1 2 {rest}",
    ]
    assert (" share " in done.stderr) == (len(os.sched_getaffinity(0)) < 6)


def test_a_host_sees_itself_only():
    code = "hostname; ls /sys/class/net; echo /proc/[0-9]*; ip -4 -o addr | wc -l"
    done = lab("--hosts", 1, "--rate", "1gbit", *shell(code))
    seen = ["host0", "lab0", "lo", "/proc/1", "/proc/2", "2"]
    assert done.stdout.split() == seen, done.stderr


def test_each_host_has_a_core_where_there_are_enough():
    cores = sorted(os.sched_getaffinity(0))
    done = lab(
        "--hosts", 1, "--rate", "1gbit", *python("import os; print(os.sched_getaffinity(0))")
    )
    assert done.stdout.strip() == str({cores[0]})


@pytest.mark.parametrize(("rate", "bits"), [("100mbit", 100e6), ("1gbit", 1e9)])
def test_the_rate_is_met_both_ways(rate, bits):
    reached = []
    # A busy machine may spoil some runs, so one good run of five is enough. (A quiet one reaches
    # 0.96 and more.)
    for _ in range(5):
        done = lab("--hosts", 2, "--rate", rate, *python(SEND_BOTH_WAYS, 1.5))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        measured = [float(line.split()[-1]) * FRAME / PAYLOAD / bits for line in lines]
        assert len(measured) == 2
        if min(measured) > 0.85 and max(measured) < 1.07:
            return
        reached.append(measured)
    pytest.fail(f"these are the parts of {rate} that were reached: {reached}")


def test_gloo_works_and_its_bytes_are_counted(tmp_path):
    report = tmp_path / "report.json"
    done = lab(
        "--hosts", 2, "--rate", "1gbit", "--json", report, *python(ALL_REDUCE), timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[host1] rank 1 sum 3.0", "rank 0 sum 3.0"]
    assert "hostname" not in done.stderr  # every address has a name
    told = json.loads(report.read_text())
    assert (told["hosts"], told["rate"], told["exit_status"]) == (2, "1gbit", 0)
    assert told["seconds"] > 0
    for host in told["per_host"]:
        assert host["exit_code"] == 0
        # In an all-reduce between two, each sends as many bytes as it reduces.
        assert 4_000_000 < host["tx_bytes"] < 4_600_000
        assert 4_000_000 < host["rx_bytes"] < 4_600_000
        assert host["tx_packets"] > 0


@pytest.mark.parametrize(
    ("code", "status"),
    [("exit $RANK", 2), ("[ $RANK = 1 ] && kill -9 $$; exit 7", 137), ("exit 0", 0)],
)
def test_the_status_is_the_worst(code, status):
    assert lab("--hosts", 3, "--rate", "1gbit", *shell(code)).returncode == status


def test_a_failure_ends_the_others_after_the_grace(tmp_path):
    report = tmp_path / "report.json"
    begin = time.monotonic()
    stubborn = "[ $RANK = 0 ] && exit 3; [ $RANK = 1 ] && trap '' TERM; sleep 60; sleep 60"
    done = lab("--hosts", 3, "--rate", "1gbit", "--grace", 0.5, "--json", report, *shell(stubborn))
    assert time.monotonic() - begin > 1  # twice the grace
    assert done.returncode == 3
    assert "host0 has ended with status 3" in done.stderr
    hosts = json.loads(report.read_text())["per_host"]
    assert [host["exit_code"] for host in hosts] == [3, 137, 143]
    assert [host["ended_by_lab"] for host in hosts] == [False, True, True]


@pytest.mark.parametrize("killed", ["the command", "its supervisor"])
def test_nothing_is_left_after_kill_9(killed):
    before = interfaces()
    process = start_lab("--hosts", 2, "--rate", "1gbit", *shell("trap '' TERM; sleep 300 & wait"))
    # There is a supervisor, and each host has a shell and its sleep.
    assert wait_until(lambda: len(descendants(process.pid)) == 5)
    everyone = descendants(process.pid)
    namespaces = {os.stat(f"/proc/{pid}/ns/net").st_ino for pid in everyone}
    assert len(namespaces) == 3  # two hosts and the switch
    assert {str(inode) for inode in namespaces} <= network_namespaces()

    os.kill(process.pid if killed == "the command" else everyone[0], signal.SIGKILL)
    assert process.wait(timeout=PATIENCE) != 0
    process.stdout.close()
    assert wait_until(lambda: not any(alive(pid) for pid in everyone))
    gone = {str(inode) for inode in namespaces}
    assert wait_until(lambda: not gone & network_namespaces())
    assert interfaces() == before


def test_ctrl_c_reaches_each_worker_once():
    process = start_lab("--hosts", 2, "--rate", "1gbit", *python(COUNT_INTERRUPTS))
    assert sorted(process.stdout.readline() for _ in range(2)) == ["[host1] ready\n", "ready\n"]
    everyone = descendants(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate(timeout=PATIENCE)
    assert sorted(output.splitlines()) == ["[host1] interrupts 1", "interrupts 1"]
    assert process.returncode == 0
    assert not any(alive(pid) for pid in everyone)


def test_an_interrupt_that_is_ignored_kills_in_the_end():
    process = start_lab(
        "--hosts", 2, "--rate", "1gbit", "--grace", 0.3,
        *shell("trap '' INT; echo ready; sleep 300"),
    )  # fmt: skip
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--hosts", 2, "--rate", "1gbit"], "command is required"),
        (["--hosts", 2, "--rate", "1gbit", "--", "no-such-program"], "no-such-program"),
        (["--hosts", 2, "--rate", "100mbps", "--", "true"], '"100mbps" is not a bandwidth'),
        (["--hosts", 2, "--rate", "9tbit", "--", "true"], "a rate must be from 8kbit to 1tbit"),
        (["--hosts", 2, "--rate", "1gbit", "--delay", "2min", "--", "true"], "is not a time"),
        (["--hosts", 2, "--rate", "1gbit", "--loss", "0.1", "--", "true"], "is not a loss"),
        (["--hosts", 0, "--rate", "1gbit", "--", "true"], "--hosts"),
        (["--hosts", 1, "--rate", "1gbit", "--json", "/no/where", "--", "true"], "/no/where"),
    ],
)
def test_a_wrong_request_is_named(options, named):
    done = lab(*options)
    assert done.returncode != 0
    assert named in done.stderr


def test_delay_works_or_names_the_module():
    done = lab("--hosts", 2, "--rate", "1gbit", "--delay", "20ms", *python(TIME_A_CONNECTION))
    if done.returncode == 0:
        assert 0.04 <= float(done.stdout) < 1  # there and back
    else:
        assert "sch_netem" in done.stderr
        assert done.stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are unprivileged already")
def test_an_unprivileged_user_has_a_lab_too():
    try:
        reachable = lab("--help", user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    except PermissionError:
        pytest.skip("only root can read the folder of the build")
    if reachable.returncode != 0:
        pytest.skip(f"the command does not run as nobody: {reachable.stderr}")
    code = "id -u; grep CapEff /proc/self/status | cut -f2; cat /sys/class/net/lab0/operstate"
    done = lab(
        "--hosts", 2, "--rate", "1gbit", *shell(code),
        user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
    )  # fmt: skip
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr
    mine = [line for line in done.stdout.splitlines() if not line.startswith("[host1]")]
    assert mine == [str(NOBODY), "0" * 16, "up"]
