#!/usr/bin/env python3
"""What 64 idle peers cost their master, and pages that show them. By hand only.

    tests/bench/page.py --bin build/release/bin --daemons 8 --trainers 8 --seconds 20

So many daemons on loopback with so many trainers each, all of one group, joined and idle. For so many seconds each: nobody looks;
one page asks for /live.json once a second, as the page does; ten do; and the counters of Prometheus are asked for every 15 s. The
table has the processor time of the master, as the kernel counts it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import urllib.request

from flight import Cluster

JOINED_MAX = 100  # seconds


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fetched(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.read()


class Lookers:
    """So many that ask for a path at a pause, on threads, until they are ended."""

    def __init__(self, count, address, path, pause):
        self.ended = threading.Event()
        self.failures = []
        self.threads = [threading.Thread(target=self.look, args=(address, path, pause)) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def look(self, address, path, pause):
        while not self.ended.is_set():
            try:
                fetched(address, path)
            except OSError as error:
                self.failures.append(error)
            self.ended.wait(pause)

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        if self.failures:
            sys.exit(f"the master does not answer: {self.failures[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--daemons", type=int, default=8)
    parser.add_argument("--trainers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    world = given.daemons * given.trainers
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))) / "cluster"
        cluster = Cluster(stack, given.bin, folder, given.daemons, lambda path: ("--flight-file", path),
                          ("--http", "127.0.0.1:0"))
        http = cluster.logged(cluster.master, r"http address=(\S+)")
        for i in range(world):
            cluster.start(f"trainer{i}", "ringway-bench", "--socket", cluster.sockets[i % given.daemons], "--group", "idle",
                          "--world", world, "--bytes", "4K", "--iters", 1, "--settle", 3600)
        deadline = time.monotonic() + JOINED_MAX
        while not any(group["world_size"] == world for group in json.loads(fetched(http, "/live.json"))["groups"]):
            if time.monotonic() > deadline:
                sys.exit("the group is not formed")
            time.sleep(0.2)
        time.sleep(given.seconds)  # until the paths are probed
        size = len(fetched(http, "/live.json"))
        print(f"{world} peers at {given.daemons} daemons; live.json has {size} bytes\n\n| who looks | part of a core |\n|---|---|")
        for name, count, path, pause in (("nobody", 0, "/", 1), ("a page", 1, "/live.json", 1), ("ten pages", 10, "/live.json", 1),
                                         ("Prometheus, every 15 s", 1, "/metrics", 15)):
            lookers = Lookers(count, http, path, pause)
            before, begun = processor_seconds(cluster.pids["master"]), time.monotonic()
            time.sleep(given.seconds)
            used = (processor_seconds(cluster.pids["master"]) - before) / (time.monotonic() - begun)
            lookers.end()
            print(f"| {name} | {100 * used:.2f}% |", flush=True)


if __name__ == "__main__":
    main()
