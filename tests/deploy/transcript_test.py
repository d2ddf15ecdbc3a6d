#!/usr/bin/env python3
"""transcript_test.py SOURCE_DIR BUILD_DIR [--record]: the two hosts of deploy/README.md do what is printed there.

Each ```console block is carried out line by line: `a$ COMMAND` on host a, `b$ COMMAND` on host b, each a shell in
namespaces of its own (network, processes, mounts), joined by one cable. Every command must succeed, and print what
stands under it: line by line and word by word, where a word with a digit stands for any word with a digit, and a word
of 16 hexadecimal digits for the same word wherever it stands again. Not carried out: the installation of packages, which
have to be those of deploy/lib.sh, and the build. Host a's scp is done by other means. --record prints what came instead of comparing.
77: namespaces are not allowed here. Needs root."""
import os
import re
import select
import subprocess
import sys
import time

SECONDS_A_COMMAND = 180
DONE = "<<done {}>>"
INSTALL = "apt-get update && apt-get install -y "
MADE = (INSTALL, "cmake --preset release && cmake --build --preset release")  # BUILD_DIR is that


class Host:
    """A shell on a host of its own."""

    def __init__(self, name, address, source, build):
        self.shell = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc", "bash", "--norc"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=source)
        self.name, self.address, self.rest = name, address, b""
        made = self.run(
            f"hostname {name} && export LC_ALL=C.UTF-8 HOME=/root && ip link set lo up && "
            "for d in /run /root /var/log /usr/local; do mount -t tmpfs none $d || exit; done && "
            f"mkdir -p build/release && mount --bind '{build}' build/release")
        if made[0] != 0:
            raise OSError(" ".join(made[1]))

    def run(self, command):
        """Exit status and lines of output."""
        self.shell.stdin.write(f"{command}\nprintf '\\n{DONE.format('%d')}\\n' $?\n".encode())
        self.shell.stdin.flush()
        deadline = time.monotonic() + SECONDS_A_COMMAND
        pattern = re.compile(DONE.format(r"(\d+)").encode() + b"\n")
        while not (end := pattern.search(self.rest)):
            if not select.select([self.shell.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                return 124, [f"no end within {SECONDS_A_COMMAND} s", *self.rest.decode(errors="replace").splitlines()]
            got = os.read(self.shell.stdout.fileno(), 65536)
            if not got:
                return 125, ["the shell ended", *self.rest.decode(errors="replace").splitlines()]
            self.rest += got
        text, self.rest = self.rest[:end.start()], self.rest[end.end():]
        return int(end[1]), [line for line in text.decode(errors="replace").splitlines() if line.strip()]

    def close(self):
        self.shell.kill()  # and with it every process of the host
        self.shell.wait()


def copy(hosts, command):
    """What `scp -r DIR ADDRESS:DIR` on the first host does."""
    what, where = re.fullmatch(r"scp -r (\S+) [\d.]+:(\S+)", command).groups()
    status, packed = hosts[0].run(f"tar -C {os.path.dirname(what)} -cz {os.path.basename(what)} | base64 -w 0")
    if status == 0:
        status, packed = hosts[1].run(f"base64 -d <<<{packed[0]} | tar -C {where} -xz")
    return status, packed


def connect(hosts):
    """A cable between the two, eth0 at both ends."""
    one, other = hosts
    subprocess.run(["ip", "link", "add", "eth0", "netns", str(one.shell.pid), "type", "veth",
                    "peer", "name", "eth0", "netns", str(other.shell.pid)], check=True)
    for host in hosts:
        status, text = host.run(f"ip address add {host.address}/24 dev eth0 && ip link set eth0 up")
        if status != 0:
            raise OSError(" ".join(text))


def steps_of(readme):
    """(host, command, expected lines), in order."""
    steps = []
    for block in re.findall(r"^```console\n(.*?)^```", readme, re.M | re.S):
        for line in block.splitlines():
            if prompt := re.match(r"([ab])\$ (.*)", line):
                steps.append((prompt[1], prompt[2], []))
            elif line.strip():
                steps[-1][2].append(line)
    return steps


def check_packages(source, steps):
    """Each host installs what quickstart.sh does."""
    with open(os.path.join(source, "deploy/lib.sh"), encoding="utf-8") as file:
        wanted = re.search(r"BUILD_PACKAGES=\((.*?)\)", file.read(), re.S)[1].split()
    for host in "ab":
        installed = [command.removeprefix(INSTALL).split() for on, command, _ in steps if on == host and command.startswith(INSTALL)]
        assert installed == [wanted], f"host {host} installs {installed} instead of {wanted}"


def same_word(expected, actual, bound):
    if re.fullmatch(r"[0-9a-f]{16}", expected):
        return re.fullmatch(r"[0-9a-f]{16}", actual) and bound.setdefault(expected, actual) == actual
    if re.search(r"\d", expected):
        return re.search(r"\d", actual) is not None
    return expected == actual


def same_line(expected, actual, bound):
    words, said = expected.split(), actual.split()
    return len(words) == len(said) and all(same_word(*pair, bound) for pair in zip(words, said))


def check(step, status, lines, bound):
    """What is wrong, or nothing."""
    _, _, expected = step
    if status != 0:
        return f"it ends with {status}"
    if len(lines) != len(expected):
        return f"{len(lines)} lines instead of {len(expected)}"
    for line, wanted in zip(lines, expected):
        if not same_line(wanted, line, bound):
            return f"another line than\n  {wanted}"
    return ""


def main():
    source, build = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
    record = "--record" in sys.argv
    with open(os.path.join(source, "deploy/README.md"), encoding="utf-8") as file:
        steps = steps_of(file.read())
    assert len(steps) > 10, "the transcript is gone"
    check_packages(source, steps)
    hosts = []
    try:
        for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
            hosts.append(Host(name, address, source, build))
        connect(hosts)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no namespaces here: {error}")
        return 77
    bound, wrong = {}, ""
    try:
        for step in steps:
            if step[1].startswith(MADE):
                continue
            if step[1].startswith("scp "):
                status, lines = copy(hosts, step[1])
            else:
                status, lines = hosts["ab".index(step[0])].run(step[1])
            print(f"{step[0]}$ {step[1]}", *lines, sep="\n", flush=True)
            wrong = "" if record else check(step, status, lines, bound)
            if wrong or (record and status != 0):
                print(f"^^ {wrong or status}")
                for host in hosts:
                    print(f"---- logs of {host.name}", *host.run("tail -n 30 /var/log/*.log")[1], sep="\n")
                return 1
    finally:
        for host in hosts:
            host.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
