"""The manifests of deploy/examples for Kubernetes and SkyPilot: valid, and their commands and probes work, as the user and with the
secrets that they name.

There is no cluster and no cloud here: this takes the kubelet's and SkyPilot's part, on loopback.
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import PATIENCE, PROGRAMS, Process, eventually
from ringway._command import _free_port

try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = None

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "deploy/examples/kubernetes"
SKYPILOT = EXAMPLES.parent / "skypilot.yaml"
TRAIN = """
import numpy, ringway
with ringway.join("demo", wait_world=2, timeout=60) as session:
    x = numpy.ones(3)
    session.all_reduce(x)
    print("sum", x.tolist(), flush=True)
"""
VERSIONS = ("1.30", "1.37")
NODE = "node-1.example.com"


def documents(name):
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")))


def pod_of(name, kind):
    return next(x for x in documents(name) if x["kind"] == kind)["spec"]["template"]["spec"]


@unittest.skipUnless(kubernetes_validate, "kubernetes-validate is not installed: RINGWAY_TEST_TORCH=1 installs it, 100 MB")
class ManifestsTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringway-kubernetes-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.directory.chmod(0o711)  # another user's programs and files are in it
        for program in ("ringway-master", "ringwayd", "ringway-bench"):
            shutil.copy(PROGRAMS / program, self.directory / program)
        self.ports = {}

    def test_they_are_what_the_api_takes(self):
        for name in ("master", "daemon", "trainers"):
            for document in documents(name):
                for version in VERSIONS:
                    kubernetes_validate.validate(document, version, strict=True)

    def test_their_secrets_and_services_are_named_alike(self):
        master, daemon = pod_of("master", "Deployment"), pod_of("daemon", "DaemonSet")
        comments = "".join((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8") for name in ("master", "daemon"))
        created = re.findall(r"create secret generic (\S+)", comments)
        self.assertEqual(created, [v["secret"]["secretName"] for pod in (master, daemon) for v in pod["volumes"] if "secret" in v])
        service = next(x for x in documents("master") if x["kind"] == "Service")
        self.assertIn(f"--master={service['metadata']['name']}.{service['metadata']['namespace']}.svc:"
                      f"{service['spec']['ports'][0]['port']}", daemon["containers"][0]["command"])
        paths = [v["hostPath"]["path"] for pod in (daemon, pod_of("trainers", "Job")) for v in pod["volumes"] if "hostPath" in v]
        self.assertEqual(paths, ["/run/ringway"] * 2)

    def secret(self, pod, name, *roles):
        """As the kubelet mounts one: links to files that belong to root and the pod's fsGroup."""
        mode = next(volume["secret"]["defaultMode"] for volume in pod["volumes"] if "secret" in volume)
        made = self.directory / f"{name}-made"
        for whom, role in roles:
            subprocess.run([PROGRAMS / "ringwayctl", "certs", "issue", whom, "--role", role, "--dir", self.directory / "ca", "--out",
                            made], check=True, stdout=subprocess.DEVNULL)
        mounted = self.directory / name
        data = mounted / "..2026"
        data.mkdir(parents=True)
        (mounted / "..data").symlink_to("..2026")
        for path in made.iterdir():
            shutil.copy(path, data / path.name)
            if os.geteuid() == 0:
                os.chown(data / path.name, 0, pod["securityContext"]["fsGroup"])
            (data / path.name).chmod(mode)
            (mounted / path.name).symlink_to(f"..data/{path.name}")

    def start(self, pod, title):
        """The pod's container, with what it mounts and the ports that it takes somewhere of ours."""
        container = pod["containers"][0]
        mounts = {x["mountPath"]: self.directory / f"{title}-{x['name']}" for x in container["volumeMounts"]}
        user = container["securityContext"].get("runAsUser") or pod["securityContext"]["runAsUser"]
        command = [word.replace("$(NODE_NAME)", NODE).replace("$(HOST_IP)", "127.0.0.1") for word in container["command"]]
        command = [re.sub(r"=(0\.0\.0\.0|127\.0\.0\.1|ringway-master\.ringway\.svc):(\d+)", self.ours, word) for word in command]
        for path, where in mounts.items():
            command = [word.replace(path, str(where)) for word in command]
        command[0] = str(self.directory / command[0])
        if os.geteuid() == 0:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", *command]
        process = Process(self.directory / f"{title}.{len(list(self.directory.iterdir()))}.log", command)
        self.addCleanup(process.kill)
        return process

    def ours(self, match):
        return f"=127.0.0.1:{self.ports.setdefault(match[2], _free_port())}"

    def volume(self, name, user):
        path = self.directory / name
        path.mkdir()
        if os.geteuid() == 0:
            os.chown(path, user, user)

    def probe(self, pod, kind):
        """What the kubelet gets."""
        container = pod["containers"][0]
        get = container[kind]["httpGet"]
        names = {x["name"]: x["containerPort"] for x in container["ports"]}
        port = self.ports[str(names.get(get["port"], get["port"]))]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", get["path"])
            return connection.getresponse().status
        except ConnectionRefusedError:  # it does not listen yet
            return 0
        finally:
            connection.close()

    def test_commands_and_probes_work(self):
        subprocess.run([PROGRAMS / "ringwayctl", "certs", "init", self.directory / "ca"], check=True, stdout=subprocess.DEVNULL)
        master, daemon, trainers = pod_of("master", "Deployment"), pod_of("daemon", "DaemonSet"), pod_of("trainers", "Job")
        self.secret(master, "master-tls", ("master", "master"))
        self.secret(daemon, "daemon-tls", (NODE, "daemon"), ("node-2", "daemon"))
        self.volume("master-journal", master["securityContext"]["fsGroup"])
        owner = next(word for word in daemon["initContainers"][0]["command"] if word.startswith("--owner=")).partition("=")[2]
        self.volume("daemon-socket", int(owner))
        daemon_runs = self.start(daemon, "daemon")
        eventually(lambda: self.probe(daemon, "livenessProbe") == 200)
        self.assertEqual(self.probe(daemon, "readinessProbe"), 503)  # it has no master yet
        self.start(master, "master")
        for pod in (master, daemon):
            for kind in ("livenessProbe", "readinessProbe"):
                eventually(lambda pod=pod, kind=kind: self.probe(pod, kind) == 200)
        self.assertIn(f"daemon {NODE}", daemon_runs.said(" tls "))
        (self.directory / "trainer-ringway").symlink_to("daemon-socket")  # the same of the node
        runs = [self.start(trainers, "trainer") for _ in range(documents("trainers")[0]["spec"]["parallelism"])]
        for run in runs:
            self.assertEqual(run.end(), 0, run.text())
        self.assertTrue((self.directory / "master-journal/master.db").exists())


@unittest.skipUnless(kubernetes_validate, "PyYAML is not installed: RINGWAY_TEST_TORCH=1 installs it, with kubernetes-validate")
class SkypilotTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringway-skypilot-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def test_it_is_what_skypilot_takes(self):
        try:
            import sky
        except ImportError:
            self.skipTest("skypilot is not installed")
        config = yaml.safe_load(SKYPILOT.read_text(encoding="utf-8"))
        config["workdir"], config["file_mounts"] = str(self.directory), {}  # which has to be there
        task = sky.Task.from_yaml_config(config, env_overrides={"NAME": "a"})
        self.assertEqual((task.envs["NAME"], task.envs["MASTER"]), ("a", ""))
        self.assertEqual([list(resources.ports) for resources in task.resources], [["7400-7401"]])

    def test_two_clouds_sum(self):
        subprocess.run([PROGRAMS / "ringwayctl", "certs", "init", self.directory / "ca"], check=True, stdout=subprocess.DEVNULL)
        for words in re.findall(r"ringwayctl (certs issue .*)", SKYPILOT.read_text(encoding="utf-8")):
            subprocess.run([PROGRAMS / "ringwayctl", *words.split()], check=True, cwd=self.directory, stdout=subprocess.DEVNULL)
        programs = self.directory / "programs"
        programs.mkdir()
        for name, does in (("curl", "echo 127.0.0.1"), ("python", f"exec '{sys.executable}' \"$@\"")):
            programs.joinpath(name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
            programs.joinpath(name).chmod(0o755)
        self.directory.joinpath("train.py").write_text(TRAIN, encoding="ascii")
        port = _free_port()
        runs = [self.launch("a", port, ""), self.launch("b", port, f"127.0.0.1:{port}")]
        for run in runs:
            self.assertEqual(run.said("sum "), "sum [2.0, 2.0, 2.0]")

    def launch(self, name, port_of_master, master):
        """A machine of a cloud: a home of its own."""
        task = yaml.safe_load(SKYPILOT.read_text(encoding="utf-8"))
        home = self.directory / f"home-{name}"
        for where, what in task["file_mounts"].items():
            shutil.copytree(self.directory / what.replace("${NAME}", name), home / where.removeprefix("~/"))
        script = task["run"].replace(":7400", f":{port_of_master}").replace(":7401", f":{_free_port()}")
        environment = {**os.environ, **task["envs"], "HOME": str(home), "NAME": name, "MASTER": master}
        environment["PATH"] = f"{self.directory / 'programs'}:{PROGRAMS}:{os.environ['PATH']}"
        run = Process(self.directory / f"{name}.log", ["bash", "-c", script], env=environment, cwd=self.directory, start_new_session=True)
        self.addCleanup(self.end, run)
        return run

    @staticmethod
    def end(run):
        os.killpg(run.process.pid, signal.SIGKILL)  # what SkyPilot does at last
        run.kill()


if __name__ == "__main__":
    unittest.main()
