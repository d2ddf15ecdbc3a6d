#!/usr/bin/env python3
"""units_test.py SOURCE_DIR BUILD_DIR: the real programs, started as the units of deploy/systemd say.

In namespaces of its own (mounts, network, processes) this takes systemd's part: the installed paths, the directories
with their modes, a user without rights, NOTIFY_SOCKET, the time limits, SIGTERM. With the example configurations. The
daemon begins without a master, is ready all the same, and serves a trainer of another user once there is one; a killed
master goes on with its journal; each unit stops in its time. 77: namespaces are not allowed here. Needs root."""
import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

SOURCE, BUILD = map(os.path.realpath, sys.argv[1:3])
SERVICE_UID, TRAINER_UID = 61184, 61185
TRAINER = ["--group", "units", "--world", "1", "--steps", "2"]


def prepare():
    """The paths as packages and systemd make them."""
    commands = ["ip link set lo up"]
    for directory in ("/run", "/var/lib", "/usr/local"):
        commands.append(f"mount -t tmpfs -o mode=755 none {directory}")
    commands += [f"cmake --install '{BUILD}' --prefix /usr/local >/dev/null", f"cp -r '{SOURCE}/deploy/examples' /run/etc"]
    subprocess.run(["bash", "-ec", "\n".join(commands)], check=True, cwd="/")


class Unit:
    """One service, from its file."""

    def __init__(self, name):
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str
        parser.read(f"{SOURCE}/deploy/systemd/{name}.service")
        self.name, self.service = name, parser["Service"]
        assert self.service["Type"] == "notify" and self.service["Restart"] == "on-failure"
        self.process = None
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

    def start(self):
        environment = {"PATH": "/usr/local/bin:/usr/bin", "NOTIFY_SOCKET": f"/run/notify-{self.name}"}
        self.directory("Runtime", "/run", "RUNTIME_DIRECTORY", environment)
        self.directory("State", "/var/lib", "STATE_DIRECTORY", environment)
        command = self.service["ExecStart"].replace("/usr/bin/", "/usr/local/bin/").replace("/etc/ringway/", "/run/etc/")
        self.process = subprocess.Popen(
            ["setpriv", f"--reuid={SERVICE_UID}", f"--regid={SERVICE_UID}", "--clear-groups", "--bounding-set=-all",
             "--no-new-privs", *command.split()],
            env=environment, umask=int(self.service.get("UMask", "0022"), 8),
            cwd=self.service.get("WorkingDirectory", "/"))
        self.expect("READY=1", self.seconds("TimeoutStartSec", 90))

    def expect(self, word, seconds):
        self.notify.settimeout(seconds)
        said = self.notify.recv(4096).decode()
        assert word in said.split(), f"{self.name} says {said!r} instead of {word}"

    def remove_runtime_directory(self, restarts):
        """As systemd does when the service has ended."""
        keep = {"no": False, "restart": restarts, "yes": True}[self.service.get("RuntimeDirectoryPreserve", "no")]
        if "RuntimeDirectory" in self.service and not keep:
            shutil.rmtree(f"/run/{self.service['RuntimeDirectory']}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.remove_runtime_directory(restarts=True)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
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
    daemon.stop(signal.SIGHUP)  # as when the terminal goes from which it was started
    master.stop(signal.SIGHUP)
    master.start()
    daemon.start()
    master.stop()
    daemon.stop()
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
