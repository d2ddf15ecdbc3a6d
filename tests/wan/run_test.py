#!/usr/bin/env python3
"""tests/wan/run sets the hosts' kernels, takes overrides, starts foreign connections, leaves nothing behind after Ctrl-C, and its
network can change while it runs. An uplink whose queue is the device drops there, and the sender's kernel knows.

run_test.py RUN BIN: ends with 77 where it may not make devices. `run_test.py probe HOST WORK`, `run_test.py locked HOST WORK` and
`run_test.py device HOST WORK` are what the hosts run.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

PORT = 7500
DEADLINE_S = 30
ECHO, ASKER = "0", "1"  # hosts
DELAY_BEFORE_MS, DELAY_AFTER_MS = 50, 5


def round_trip_ms():
    begin = time.monotonic()
    with socket.create_connection((f"10.111.0.{int(ECHO) + 1}", PORT), timeout=DEADLINE_S):
        return (time.monotonic() - begin) * 1000


def fails(condition, text):
    if condition:
        sys.exit(text)


def wait_for(condition, text):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        fails(time.monotonic() > end, text)
        time.sleep(0.05)


def listens():
    try:
        return round_trip_ms() > 0
    except ConnectionRefusedError:
        return False


def probe(host, work):
    """One host accepts connections until the other, which changes the network, is done."""
    done = pathlib.Path(work, "done")
    if host == ECHO:
        with socket.create_server(("", PORT)) as server:
            server.settimeout(0.1)
            end = time.monotonic() + 3 * DEADLINE_S
            while not done.exists() and time.monotonic() < end:
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    pass
    elif host == ASKER:
        wait_for(listens, "nobody listens")
        fails(round_trip_ms() < 2 * DELAY_BEFORE_MS, "the network is faster than the scenario says")
        scenario = pathlib.Path(work, "scenario.toml")
        scenario.write_text(scenario.read_text().replace(f"delay_ms = {DELAY_BEFORE_MS}", f"delay_ms = {DELAY_AFTER_MS}"))
        os.kill(int(pathlib.Path(work, "emulator.pid").read_text()), signal.SIGHUP)
        wait_for(lambda: round_trip_ms() < 2 * DELAY_BEFORE_MS, "the network does not change")
        done.touch()


def congestion_of(name=None):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect((f"10.111.0.{int(ECHO) + 1}", PORT))
        if name is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def locked(host, work):
    """Connections run what the overrides say, even against a program's wish; the foreign ones move bytes."""
    if host != ASKER:
        return probe(host, work) if host == ECHO else None
    try:
        wait_for(listens, "nobody listens")
        fails(congestion_of() != "reno", f"connections run {congestion_of()}, not reno")
        with contextlib.suppress(PermissionError):
            sys.exit(f"a program could choose {congestion_of('cubic')}")
        flows = pathlib.Path(work, "foreign.0")
        wait_for(lambda: flows.read_text().split("\n")[:-1][-1:] and int(flows.read_text().split("\n")[-2].split()[1]) > 0,
                 "nothing arrived over the foreign connection")
    finally:
        pathlib.Path(work, "done").touch()


def dropped_and_resent():
    """Packets that this host's qdisc dropped, and segments that its TCP sent again."""
    qdisc = json.loads(subprocess.check_output(["tc", "-s", "-j", "qdisc", "show", "dev", "wan0"]))[0]
    fails(qdisc["kind"] != "tbf", f"the uplink is a {qdisc['kind']}")
    names, values = [line.split() for line in pathlib.Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")]
    return qdisc["drops"], int(values[names.index("RetransSegs")])


def device(host, work):
    """The foreign connections overfill the device's queue; what it drops has not been sent, so that little is sent again."""
    if host != ASKER:
        return
    wait_for(lambda: dropped_and_resent()[0] > 200, "the device drops nothing")
    dropped, resent = dropped_and_resent()
    fails(2 * resent > dropped, f"{resent} segments were sent again where the device dropped {dropped} packets")
    scenario = pathlib.Path(work, "scenario.toml")
    scenario.write_text(scenario.read_text().replace("queue_ms = 5", "queue_ms = 50"))
    os.kill(int(pathlib.Path(work, "emulator.pid").read_text()), signal.SIGHUP)
    wait_for(lambda: "cannot change while it runs" in pathlib.Path(work, "emulator.log").read_text(), "the queue seems to change")


SCENARIO = """
[default]
delay_ms = 5
[[site]]
name = "a"
[[site]]
name = "b"
uplink_mbit = 50
[[foreign]]
from = "b"
to = "a"
"""


def check_overrides(run, programs):
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "two.toml")
        scenario.write_text(SCENARIO)
        command = [run, "--bin", programs, "--bare", "--", "true"]
        for overrides, why in (("b.uplink_mbit=x", "uplink_mbit is a number"), ("congestion=none", "this kernel has"),
                               ("", "KEY=VALUE"), ("up=1", "'up=1' sets no key"),
                               ("drops=device", "needs uplink_mbit")):
            command[-2:-2] = [f"{scenario}:{overrides}"]
            said = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
            fails(said.returncode == 0 or why not in said.stderr, f"{overrides}: {said.stderr}")
            del command[-3]
        command[-2:] = [f"{scenario}:congestion=reno", "--", sys.executable, "-B", __file__, "locked", "{host}", "{work}"]
        fails(subprocess.run(command, check=False).returncode, "the overridden scenario failed")


def check_device(run, programs):
    with tempfile.TemporaryDirectory() as folder:
        scenario, stats = pathlib.Path(folder, "two.toml"), pathlib.Path(folder, "stats.json")
        scenario.write_text(SCENARIO + "connections = 64\n")
        command = [run, "--bin", programs, "--bare", "--stats", stats, f"{scenario}:b.drops=device,b.queue_ms=5", "--",
                   sys.executable, "-B", __file__, "device", "{host}", "{work}"]
        fails(subprocess.run(command, check=False).returncode, "the queue at the device failed")
        overflowed = sum(path["overflowed"] for path in json.loads(stats.read_text())["paths"])
        fails(overflowed, f"{overflowed} packets were dropped behind the device")


def check_change(run, programs):
    command = [run, "--skip-without-tun", "--bin", programs, "--bare", "us", "--", sys.executable, "-B", __file__,
               "probe", "{host}", "{work}"]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        sys.exit(status)


# Where the machine's own settings are others, a host that was not set shows them.
def check_kernel(run, programs):
    wanted = {"debian": ["4096 131072 6291456", "4096 16384 4194304", "1"],
              "tuned": ["4096 131072 67108864", "4096 65536 67108864", "0"]}
    files = [f"/proc/sys/net/ipv4/{name}" for name in ("tcp_rmem", "tcp_wmem", "tcp_slow_start_after_idle")]
    for kernel, values in wanted.items():
        said = subprocess.run([run, "--bin", programs, "--bare", "--kernel", kernel, "us", "--", "cat", *files],
                              check=True, stdout=subprocess.PIPE, text=True).stdout.expandtabs(1).splitlines()
        fails(sorted(said) != sorted(4 * values), f"{kernel}: four hosts say {said}")


def processes_in(namespace):
    return subprocess.check_output(["ip", "netns", "pids", namespace], text=True).split()


def check_interrupt(run, programs):
    command = [run, "--bin", programs, "us", "--", "bash", "-c", "echo started in {work}; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process, \
            contextlib.ExitStack() as on_failure:
        on_failure.callback(process.terminate)
        work = pathlib.Path(process.stdout.readline().split()[-1])
        namespaces = pathlib.Path(work, "namespaces").read_text().split()
        fails(not namespaces, "no namespaces are named")
        wait_for(lambda: all(len(processes_in(name)) >= 2 for name in namespaces), "no daemon and command everywhere")
        processes = [pid for name in namespaces for pid in processes_in(name)]
        os.killpg(process.pid, signal.SIGINT)
        fails(process.wait(DEADLINE_S) != 130, f"it ended with {process.returncode}")
    left = [name for name in namespaces if pathlib.Path("/run/netns", name).exists()]
    fails(left, f"namespaces are left: {left}")
    fails([pid for pid in processes if pathlib.Path("/proc", pid).exists()], "processes are left")
    fails(work.exists(), f"{work} is left")


if __name__ == "__main__":
    if sys.argv[1] in ("probe", "locked", "device"):
        {"probe": probe, "locked": locked, "device": device}[sys.argv[1]](*sys.argv[2:])
    else:
        check_change(*sys.argv[1:])
        check_overrides(*sys.argv[1:])
        check_device(*sys.argv[1:])
        check_kernel(*sys.argv[1:])
        check_interrupt(*sys.argv[1:])
