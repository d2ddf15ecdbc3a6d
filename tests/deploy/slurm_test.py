#!/usr/bin/env python3
"""deploy/examples/slurm.sh under a real Slurm: two nodes of this machine, with two tasks each. As root. Skipped (77) where Slurm is
not installed: apt-get install slurm-wlm."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "deploy/examples/slurm.sh"
PATIENCE = 120  # seconds: far beyond what anything here takes
NODES, TASKS_PER_NODE = ("n1", "n2"), 2

CONF = """
ClusterName=ringway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
FirstJobId={ports[0]}
SlurmUser=root
SlurmdUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
ReturnToService=2
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP
"""

# A trainer: as many ranks as there are tasks sum on their nodes' daemons. What it prints at the end is looked for.
TRAINER = """
set -eu
ringway-bench --socket "$RINGWAY_SOCKET" --group job --world "$WORLD_SIZE" --bytes 64K >"$SLURM_SUBMIT_DIR/table.$RANK"
echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $SLURMD_NODENAME, $RINGWAY_SOCKET, $MASTER_ADDR:$MASTER_PORT"
"""


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


class Slurm:
    """A controller and its nodes, on this machine. programs: the directory of Ringway's."""

    def __init__(self, directory, programs):
        self.directory = directory
        conf = directory / "slurm.conf"
        conf.write_text(CONF.format(host=socket.gethostname(), ports=free_ports(3), directory=directory), encoding="ascii")
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (directory / name).mkdir()
        self.environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{programs}:{os.environ['PATH']}"}
        self.processes = [self._start("slurmctld", "-D"), *(self._start("slurmd", "-D", "-N", node) for node in NODES)]

    def _start(self, *words):
        return subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def say(self, *words):
        return subprocess.run(words, env=self.environment, cwd=self.directory, check=True, capture_output=True, text=True,
                              timeout=PATIENCE).stdout

    def is_ready(self):
        said = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %t"], env=self.environment, check=False, capture_output=True, text=True)
        return said.stdout.split("\n")[:2] == [f"{node} idle" for node in NODES]

    def close(self):
        # Jobs of a test that failed.
        subprocess.run(["scancel", "--user", "root"], env=self.environment, check=False, timeout=PATIENCE)
        with contextlib.suppress(AssertionError, subprocess.SubprocessError):
            eventually("no job is left", lambda: not self.say("squeue", "-h"))
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def logs(self):
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.directory.glob("**/*")) if path.suffix in (".log", ".out"))


def run_job(slurm, script, *command):
    """The job's id, its state at the end, and its output."""
    job = slurm.say("sbatch", "--parsable", "--ntasks-per-node", str(TASKS_PER_NODE), "--output", "job-%j.out", str(script),
                    *command).strip()

    def state():
        return re.search(r"JobState=(\S+)", slurm.say("scontrol", "show", "job", job))[1]

    eventually(f"job {job} ends", lambda: state() not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"))
    return job, state(), (slurm.directory / f"job-{job}.out").read_text(errors="replace")


def leftovers(job):
    listed = subprocess.run(["ps", "-eo", "pid,args"], check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if f"ringway-{job}" in line] + list(pathlib.Path("/tmp").glob(f"ringway-{job}-*"))


def check(slurm):
    eventually("both nodes are idle", slurm.is_ready)
    trainer = slurm.directory / "trainer.sh"
    trainer.write_text(TRAINER, encoding="ascii")
    job, state, said = run_job(slurm, EXAMPLE, "bash", str(trainer))
    assert state == "COMPLETED", (state, said)
    ranks = re.findall(r"^rank (\d) of 4, (\d) of 2, (n\d), (/tmp/ringway-\d+-n\d/ringwayd.sock), \S+:\d+$", said, re.MULTILINE)
    assert sorted(rank for rank, *_ in ranks) == list("0123"), said
    assert {(local, node, path) for _, local, node, path in ranks} == {
        (local, node, f"/tmp/ringway-{job}-{node}/ringwayd.sock") for local in "01" for node in NODES}, said
    for node in NODES:  # it was asked to stop, and did
        assert " stopped" in (slurm.directory / f"ringway-{job}" / f"{node}.log").read_text(encoding="utf-8"), said
    table = "".join(path.read_text(encoding="utf-8") for path in slurm.directory.glob("table.*"))  # of one of them
    assert re.search(r"^ *65536 ", table, re.MULTILINE), table
    eventually(f"job {job} leaves nothing", lambda: not leftovers(job))
    keys = list((slurm.directory / f"ringway-{job}").glob("**/*.key"))
    assert len(keys) == 4 and all(key.stat().st_mode & 0o077 == 0 for key in keys), keys

    job, state, said = run_job(slurm, EXAMPLE, "bash", "-c", "[ $RANK != 3 ] || exit 5")
    assert state == "FAILED", (state, said)
    eventually(f"job {job} leaves nothing", lambda: not leftovers(job))


def main():
    if shutil.which("slurmctld") is None or shutil.which("slurmd") is None:
        print("slurm is not installed: apt-get install slurm-wlm")
        return 77
    if not subprocess.run(["hostname", "-I"], check=True, capture_output=True, text=True).stdout.strip():
        print("this machine has no address but loopback's")
        return 77
    if os.geteuid() != 0:
        print("only root may start the nodes of this test")
        return 77
    with tempfile.TemporaryDirectory(prefix="ringway-slurm-") as directory:
        slurm = Slurm(pathlib.Path(directory), pathlib.Path(sys.argv[2], "bin"))
        try:
            check(slurm)
        except BaseException:
            print(slurm.logs(), file=sys.stderr)
            raise
        finally:
            slurm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
