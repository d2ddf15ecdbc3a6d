"""A master and daemons for a benchmark that kills them: on loopback, or in the namespaces of an emulated network."""

import datetime
import os
import pathlib
import re
import signal
import subprocess
import time
import typing

PATIENCE_S = 120
EVENT = re.compile(r"^(\S+)Z \S+ (\S+) ?(.*)$", re.MULTILINE)


class Host(typing.NamedTuple):
    """Where a daemon runs."""
    prefix: tuple = ()  # of each command there
    address: str = "127.0.0.1"
    port: int = 0  # of its daemon; 0: any


class Event(typing.NamedTuple):
    """What a program has logged; `at` is in seconds of the host's clock."""
    at: float
    name: str
    fields: str

    def number(self, field):
        """Of a field; 0 where it is not there."""
        found = re.search(rf"(?:^| ){field}=(\d+)", self.fields)
        return int(found[1]) if found else 0


def events(text):
    for stamp, name, fields in EVENT.findall(text):
        at = datetime.datetime.fromisoformat(stamp).replace(tzinfo=datetime.timezone.utc).timestamp()
        yield Event(at, name, fields)


class Cluster:
    """Ends with SIGKILL for all that is left."""

    def __init__(self, programs, directory, hosts, master_options=(), daemon_options=(), tls=False):
        self.programs, self.directory, self.hosts = pathlib.Path(programs), pathlib.Path(directory), hosts
        self.master_options, self.daemon_options = master_options, daemon_options
        self.processes, self.tls = {}, tls

    def __enter__(self):
        host = self.hosts[0]
        self.start("master", host, self.programs / "ringway-master", *self.secured("main", "master"), "--listen",
                   f"{host.address}:0", "--journal", self.directory / "journal", *self.master_options)
        self.await_event("master", "listening")
        self.master = re.search(r"address=(\S+)", self.log("master"))[1]
        for index in range(len(self.hosts)):
            self.start_daemon(index)
        for index in range(len(self.hosts)):
            self.await_event(f"daemon{index}", "ready")
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def start(self, label, host, *command):
        with open(self.directory / f"{label}.log", "ab") as log:
            self.processes[label] = subprocess.Popen([*host.prefix, *map(str, command)], stdout=log, stderr=log)

    def secured(self, name, role):
        """The options that give a program its certificate, or say that it needs none."""
        if not self.tls:
            return ["--insecure"]
        folder = self.directory / "tls"
        certs = [self.programs / "ringwayctl", "certs"]
        if not folder.exists():
            subprocess.run([*certs, "init", folder], check=True, stdout=subprocess.DEVNULL)
        if not (folder / f"{name}.pem").exists():
            subprocess.run([*certs, "issue", name, "--role", role, "--dir", folder], check=True, stdout=subprocess.DEVNULL)
        return ["--tls-ca", folder / "ca.pem", "--tls-cert", folder / f"{name}.pem", "--tls-key", folder / f"{name}.key"]

    def start_daemon(self, index):
        host = self.hosts[index]
        self.start(f"daemon{index}", host, self.programs / "ringwayd", *self.secured(f"daemon{index}", "daemon"), "--master",
                   self.master, "--listen", f"{host.address}:{host.port}", "--socket", self.socket(index), "--name",
                   f"daemon{index}", *self.daemon_options)

    def socket(self, index):
        return str(self.directory / f"daemon{index}.sock")

    def log(self, label):
        path = self.directory / f"{label}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def await_event(self, label, name):
        deadline = time.monotonic() + PATIENCE_S
        while not any(event.name == name for event in events(self.log(label))):
            if time.monotonic() > deadline or self.processes[label].poll() is not None:
                raise TimeoutError(f"{label} is not {name}: {self.log(label)[-2000:]}")
            time.sleep(0.01)

    def signal(self, label, number):
        """When it was sent, in seconds of the host's clock."""
        now = time.time()
        os.kill(self.processes[label].pid, number)
        return now

    def kill(self, label):
        """As signal does, and awaits its end."""
        now = self.signal(label, signal.SIGKILL)
        self.processes[label].wait()
        return now

    def events(self, index, since=0.0):
        """What a daemon has logged from then on."""
        return [event for event in events(self.log(f"daemon{index}")) if event.at >= since - 0.001]  # logs cut to milliseconds
