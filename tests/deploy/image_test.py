"""image_test.py [LAYOUT]: containers of the image that deploy/image.sh made (build/image/ringway-x86_64), by umoci and crun: as its user,
with a root that nobody can write to. A daemon is not ready before its master is there, then two trainers sum.

By hand, after deploy/image.sh; as root. Installs umoci and crun. 77: no namespaces.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 60
USER = 10001


class Image:
    """Unpacked; its containers share the network of this machine."""

    def __init__(self, layout, directory):
        self.directory = directory
        self.runtime = ["crun", "--cgroup-manager=disabled", f"--root={directory / 'state'}"]
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:ringway", directory / "image"], check=True, stderr=subprocess.DEVNULL)
        self.config = json.loads((directory / "image/config.json").read_text(encoding="utf-8"))
        self.health_check = self.described(layout)["Healthcheck"]["Test"][1:]
        self.running = []

    @staticmethod
    def described(layout):
        """The image's config."""

        def blob(descriptor):
            return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text(encoding="utf-8"))

        manifest = blob(json.loads((layout / "index.json").read_text(encoding="utf-8"))["manifests"][0])
        return blob(manifest["config"])["config"]

    def start(self, name, *words, mounts=(), user=None, capabilities=()):
        """A container that runs this command; mounts: where each directory is, in the container and here."""
        config = json.loads(json.dumps(self.config))
        config["process"].update(terminal=False, args=[str(word) for word in words])
        config["process"]["capabilities"] = {kind: list(capabilities) for kind in ("bounding", "effective", "permitted")}
        if user is not None:
            config["process"]["user"] = {"uid": user, "gid": user}
        config["root"] = {"path": str(self.directory / "image/rootfs"), "readonly": True}
        config["mounts"] += [{"destination": inside, "source": str(here), "type": "bind", "options": ["bind", "rw"]}
                             for inside, here in mounts]
        config["linux"]["namespaces"] = [x for x in config["linux"]["namespaces"] if x["type"] != "network"]
        config["linux"].pop("resources", None)
        bundle = self.directory / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with (bundle / "log").open("wb") as log:
            process = subprocess.Popen([*self.runtime, "run", "--bundle", bundle, name], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT)
        self.running.append(name)
        return process

    def log(self, name):
        return (self.directory / name / "log").read_text(encoding="utf-8", errors="replace")

    def is_ready(self, name, at):
        """What the health check says of a container that serves there."""
        environment = [f"--env={x}" for x in [*self.config["process"]["env"], f"RINGWAY_HTTP={at}"]]
        asked = subprocess.run([*self.runtime, "exec", *environment, name, *self.health_check], check=False,
                               capture_output=True, text=True, timeout=PATIENCE)
        return asked.returncode, asked.stderr

    def close(self):
        for name in self.running:
            subprocess.run([*self.runtime, "delete", "--force", name], check=False, capture_output=True)


def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} does not come true"
        time.sleep(0.1)


def ports(count):
    """So many that are free now."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    return found


def check(image, directory):
    assert image.config["process"]["user"] == {"uid": USER, "gid": USER}, image.config["process"]["user"]
    sockets, journal = directory / "sockets", directory / "journal"
    for made in (sockets, journal):
        made.mkdir()
    directory.chmod(0o711)
    os.chown(journal, USER, USER)
    master_at, daemon_at, master_http, daemon_http = ports(4)
    volume = [("/run/ringway", sockets)]
    prepares = image.start("prepares", "install", "-d", "--mode=0755", f"--owner={USER}", f"--group={USER}", "/run/ringway",
                           mounts=volume, user=0, capabilities=["CAP_CHOWN", "CAP_FOWNER"])  # as the manifests' initContainer
    assert prepares.wait(PATIENCE) == 0, image.log("prepares")
    daemon = image.start("daemon", "ringwayd", f"--master={master_at}", f"--listen={daemon_at}", f"--http={daemon_http}", "--insecure",
                         "--socket=/run/ringway/ringwayd.sock", "--socket-mode=0666", "--name=d", mounts=volume)
    eventually("a daemon without a master serves", lambda: "503" in image.is_ready("daemon", daemon_http)[1])
    assert image.is_ready("daemon", daemon_http)[0] == 1
    assert image.is_ready("daemon", "no such place")[0] == 2
    master = image.start("master", "ringway-master", f"--listen={master_at}", f"--http={master_http}", "--insecure",
                         "--journal=/var/lib/ringway/master.db", mounts=[("/var/lib/ringway", journal)])
    for name, at in (("master", master_http), ("daemon", daemon_http)):
        eventually(f"{name} is ready: {image.log(name)}", lambda name=name, at=at: image.is_ready(name, at)[0] == 0)
    assert (journal / "master.db").stat().st_uid == USER
    words = ["ringway-bench", "--socket=/run/ringway/ringwayd.sock", "--group=demo", "--world=2", "--bytes=1M", "--check"]
    trainers = [image.start(f"trainer{i}", *words, mounts=volume, user=USER + 1) for i in range(2)]
    for i, trainer in enumerate(trainers):
        assert trainer.wait(PATIENCE) == 0, image.log(f"trainer{i}")
    for name, process in (("daemon", daemon), ("master", master)):
        subprocess.run([*image.runtime, "kill", name, "TERM"], check=True)
        assert process.wait(PATIENCE) == 0, image.log(name)


def main():
    layout = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/image/ringway-x86_64").resolve()
    if not (layout / "index.json").exists():
        sys.exit(f"there is no image in {layout}: deploy/image.sh makes it")
    if os.environ.get("RINGWAY_IMAGE_TEST") != "inside":
        source = f"source {ROOT}/deploy/lib.sh; install_packages umoci crun"
        subprocess.run(["bash", "-euc", source], check=True)
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*inside, "true"], check=False).returncode != 0:
            sys.exit(77)
        sys.exit(subprocess.run([*inside, sys.executable, "-B", __file__, layout], check=False,
                                env={**os.environ, "RINGWAY_IMAGE_TEST": "inside"}).returncode)
    # crun takes no mixture of both hierarchies of control groups, and none is needed here.
    subprocess.run("umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup", shell=True, check=False,
                   stderr=subprocess.DEVNULL)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ringway-image-"))
    image = Image(layout, directory)
    try:
        check(image, directory)
    except AssertionError:
        for name in image.running:
            print(f"{name}:\n{image.log(name)}", file=sys.stderr)
        raise
    finally:
        image.close()
        shutil.rmtree(directory)
    print("containers of the image are ready when they can work, and sum")


if __name__ == "__main__":
    main()
