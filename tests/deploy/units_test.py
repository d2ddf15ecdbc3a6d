#!/usr/bin/env python3
"""units_test.py SOURCE_DIR BUILD_DIR: the real programs, started as the units of deploy/systemd say.

In namespaces of its own (mounts, network, processes) this takes systemd's part: the installed paths, the directories
with their modes, a user without rights, NOTIFY_SOCKET, the watchdog, the time limits, SIGTERM, and the daemon's socket. With
the example configurations, logs in files of their own. The daemon begins without a master, is ready all the same, and serves a trainer of another user
once there is one; a killed master goes on with its journal; each unit stops in its time. A trainer that comes while the daemon is
down waits for it, where systemd holds the socket; a daemon one of whose threads is stuck shows no sign of life any more.
77: namespaces are not allowed here. Needs root."""
import configparser
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

SOURCE, BUILD = map(os.path.realpath, sys.argv[1:3])
SERVICE_UID, TRAINER_UID = 61184, 61185
ALIVE, WATCHDOG_S = "WATCHDOG=1", 2
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
TRAINER = ["--group", "units", "--world", "1", "--steps", "2"]


def prepare():
    """The paths as packages and systemd make them."""
    commands = ["ip link set lo up"]
    for directory in ("/run", "/var/lib", "/var/log", "/usr/local"):
        commands.append(f"mount -t tmpfs -o mode=755 none {directory}")
    commands += [f"cmake --install '{BUILD}' --prefix /usr/local >/dev/null", f"cp -r '{SOURCE}/deploy/examples' /run/etc",
                 "sed -i 's/^# log-file = /log-file = /' /run/etc/*.toml"]
    subprocess.run(["bash", "-ec", "\n".join(commands)], check=True, cwd="/")


class Unit:
    """One service, from its file."""

    def __init__(self, name):
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str
        parser.read(f"{SOURCE}/deploy/systemd/{name}.service")
        self.name, self.service = name, parser["Service"]
        assert self.service["Type"] == "notify" and self.service["Restart"] == "on-failure"
        self.process, self.listening = None, None
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(f"/run/notify-{name}")
        os.chmod(f"/run/notify-{name}", 0o777)

    def seconds(self, key, default):
        return int(self.service.get(key, default))

    def directory(self, kind, parent, variable, environment):
        if f"{kind}Directory" not in self.service:
            return
        path = f"{parent}/{self.service[f'{kind}Directory']}"
        os.makedirs(path, exist_ok=True)
        os.chmod(path, int(self.service.get(f"{kind}DirectoryMode", "0755"), 8))
        os.chown(path, SERVICE_UID, SERVICE_UID)
        environment[variable] = path

    def listen(self):
        """What NAME.socket says."""
        parser = configparser.RawConfigParser(strict=False)
        parser.read(f"{SOURCE}/deploy/systemd/{self.name}.socket")
        path = parser["Socket"]["ListenSequentialPacket"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(path)
        os.chmod(path, int(parser["Socket"]["SocketMode"], 8))
        self.listening.listen(128)

    def start(self):
        environment = {"PATH": "/usr/local/bin:/usr/bin", "NOTIFY_SOCKET": f"/run/notify-{self.name}"}
        self.directory("Runtime", "/run", "RUNTIME_DIRECTORY", environment)
        self.directory("State", "/var/lib", "STATE_DIRECTORY", environment)
        self.directory("Logs", "/var/log", "LOGS_DIRECTORY", environment)
        command = self.service["ExecStart"].replace("/usr/bin/", "/usr/local/bin/").replace("/etc/ringway/", "/run/etc/")
        environment["WATCHDOG_USEC"] = str(WATCHDOG_S * 1000000)
        assert int(self.service["WatchdogSec"]) >= 10, "a busy machine is not a stuck loop"
        pass_on = ""
        if self.listening:
            pass_on = f"exec 3<&{self.listening.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; "
        self.process = subprocess.Popen(
            ["bash", "-c", pass_on + 'exec "$@"', "unit", "setpriv", f"--reuid={SERVICE_UID}", f"--regid={SERVICE_UID}",
             "--clear-groups", "--bounding-set=-all", "--no-new-privs", *command.split()],
            start_new_session=True, pass_fds=[self.listening.fileno()] if self.listening else [], env=environment, umask=int(self.service.get("UMask", "0022"), 8),
            cwd=self.service.get("WorkingDirectory", "/"))
        self.expect("READY=1", self.seconds("TimeoutStartSec", 90))

    def expect(self, word, seconds):
        self.notify.settimeout(seconds)
        said = ALIVE
        while said == ALIVE:
            said = self.notify.recv(4096).decode()
        assert word in said.split(), f"{self.name} says {said!r} instead of {word}"

    def alive(self):
        """Whether it says so within the watchdog's time."""
        self.notify.settimeout(WATCHDOG_S)
        try:
            return self.notify.recv(4096).decode() == ALIVE
        except TimeoutError:
            return False

    def silent(self):
        """Whether it stops saying so; what it has said already does not count."""
        return any(not self.alive() for _ in range(100))

    def remove_runtime_directory(self, restarts):
        """As systemd does when the service has ended."""
        keep = {"no": False, "restart": restarts, "yes": True}[self.service.get("RuntimeDirectoryPreserve", "no")]
        if "RuntimeDirectory" in self.service and not keep:
            shutil.rmtree(f"/run/{self.service['RuntimeDirectory']}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.remove_runtime_directory(restarts=True)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.expect("STOPPING=1", self.seconds("TimeoutStopSec", 90))
        status = self.process.wait(self.seconds("TimeoutStopSec", 90))
        assert status == 0, f"{self.name} ends with {status}"
        self.remove_runtime_directory(restarts=False)


def output_of(*command, uid=0):
    done = subprocess.run(["setpriv", f"--reuid={uid}", "--clear-groups", *command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(command)} ends with {done.returncode}: {done.stdout}"
    return done.stdout


def train():
    said = output_of("/usr/local/bin/train_text", *TRAINER, uid=TRAINER_UID)
    assert re.search(r"hash [0-9a-f]{16}", said), said


def name_of(process, task):
    with open(f"/proc/{process.pid}/task/{task}/comm", encoding="utf-8") as file:
        return file.read().strip()


def hold_thread(process, name):
    """One thread of the process stands still until the process that this returns, which holds it, ends; None: not allowed."""
    thread = next(int(task) for task in sorted(os.listdir(f"/proc/{process.pid}/task")) if name_of(process, task) == name)
    ready, answer = os.pipe()
    holder = os.fork()
    if holder == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        held = all(libc.ptrace(request, thread, None, None) == 0 for request in (PTRACE_SEIZE, PTRACE_INTERRUPT))
        os.write(answer, b"y" if held else b"n")
        signal.pause()
    if os.read(ready, 1) == b"y":
        return holder
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    return None


def run_with_socket():
    """The socket outlives the daemon."""
    master, daemon = Unit("ringway-master"), Unit("ringwayd")
    master.start()
    daemon.listen()
    trainer = subprocess.Popen(["setpriv", f"--reuid={TRAINER_UID}", "--clear-groups", "/usr/local/bin/train_text", *TRAINER],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    daemon.start()
    said, _ = trainer.communicate(timeout=60)
    assert trainer.returncode == 0, f"a trainer that came before the daemon ends with {said}"
    daemon.kill()
    daemon.start()
    train()
    daemon.stop()
    assert os.path.exists("/run/ringway/ringwayd.sock"), "the daemon has removed systemd's socket"
    for thread in ("ringwayd", "ringwayd-data"):
        daemon.start()
        assert daemon.alive() and daemon.alive(), "no signs of life"
        holder = hold_thread(daemon.process, thread)
        if holder is None:
            print("not done: no thread can be held here, so nothing is known of the watchdog")
            daemon.stop()
            continue
        assert daemon.silent(), f"{thread} is stuck, and the daemon says that it lives"
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        daemon.kill()
    master.stop()


def run():
    prepare()
    daemon, master = Unit("ringwayd"), Unit("ringway-master")
    daemon.start()
    assert '"master_connected":false' in re.sub(r"\s", "", output_of(
        "ringwayctl", "--socket", "/run/ringway/ringwayd.sock", "--json", "status"))
    master.start()
    train()
    master.kill()
    master.start()
    assert os.listdir("/var/lib/ringway"), "no journal"
    train()
    directory = os.stat("/run/ringway").st_ino
    daemon.kill()
    daemon.start()  # over the socket that the killed one left
    assert os.stat("/run/ringway").st_ino == directory, "trainers that look for the socket have another directory"
    train()
    for unit in (daemon, master):
        unit.process.send_signal(signal.SIGHUP)  # systemctl reload, where there are no certificates to read again
    train()
    daemon.stop()
    master.stop()
    master.start()
    daemon.start()
    master.stop()
    daemon.stop()
    for name in ("ringwayd", "ringway-master"):
        os.remove(f"/run/notify-{name}")
    run_with_socket()
    logs = sorted(os.listdir("/var/log/ringway"))
    assert logs == ["master.log", "ringwayd.log"], f"logs are {logs}"
    print("the units' programs start, serve, come back and stop")


def main():
    if os.environ.get("RINGWAY_UNITS_TEST") == "inside":
        return run()
    spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*spaces, "true"], check=False).returncode != 0:
        print("skipped: no namespaces here")
        return 77
    inside = {**os.environ, "RINGWAY_UNITS_TEST": "inside"}
    return subprocess.run([*spaces, sys.executable, "-B", *sys.argv], env=inside, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
