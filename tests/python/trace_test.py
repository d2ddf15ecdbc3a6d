"""`ringwayctl trace`: a file that Chrome's format allows, and, where it is asked for, that Perfetto reads."""
import json
import os
import subprocess
import unittest

import numpy
from cluster import PROGRAMS, ClusterTest, eventually, together

try:
    from perfetto.trace_processor import TraceProcessor
except ImportError:
    TraceProcessor = None


class TraceTest(ClusterTest):
    OPERATIONS = 4

    def trace(self, world):
        """Path of the trace of as many ranks, each at a daemon of its own, after a few operations."""
        sessions = self.join(world)
        for _ in range(self.OPERATIONS):
            together(*[lambda session=session: session.all_reduce(numpy.ones(100_000, "float32"), "sum") for session in sessions])
        path = self.cluster.directory / f"{self.group}.json"
        argv = [PROGRAMS / "ringwayctl", "--master", self.cluster.master, "trace", self.group, "-o", path]

        def is_whole():  # a daemon's clock is known after its first heartbeats
            run = subprocess.run(argv, check=False, capture_output=True, text=True)
            return run.returncode == 0 and "without daemon" not in run.stdout

        eventually(is_whole)
        return path

    def test_slices_begin_and_end_in_processes_with_names(self):
        trace = json.loads(self.trace(2).read_text(encoding="utf-8"))
        self.assertEqual(len(trace["metadata"]["hosts"]), 2)
        named, opened, operations = set(), {}, []
        for event in trace["traceEvents"]:
            if event["ph"] == "M":
                named.add(event["pid"])
                continue
            self.assertIn(event["pid"], named)
            self.assertGreaterEqual(event["ts"], 0)
            if event["ph"] == "b":
                self.assertNotIn(event["id"], opened)
                opened[event["id"]] = event
                operations += [event] if event["cat"] == "operation" else []
            elif event["ph"] == "e":
                begin = opened.pop(event["id"])
                self.assertEqual((begin["name"], begin["pid"]), (event["name"], event["pid"]))
                self.assertGreaterEqual(event["ts"], begin["ts"])
            elif event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
            else:
                self.assertEqual(event["ph"], "i")
        self.assertEqual(opened, {})
        self.assertEqual(len(operations), 2 * self.OPERATIONS)
        for operation in operations:
            self.assertEqual((operation["args"]["code"], operation["args"]["bytes"]), ("ok", 400_000))
            self.assertGreater(operation["args"]["bytes_in"], 0)

    @unittest.skipUnless(TraceProcessor and os.environ.get("RINGWAY_TEST_PERFETTO"),
                         "RINGWAY_TEST_PERFETTO is not set, or perfetto not installed: it downloads its trace processor")
    def test_perfetto_finds_the_operations(self):
        with TraceProcessor(trace=str(self.trace(2))) as processor:
            found = list(processor.query("select name, dur from slice where category = 'operation'"))
            self.assertEqual(len(found), 2 * self.OPERATIONS)
            for slice_of in found:
                self.assertTrue(slice_of.name.startswith("all_reduce 0:"))
                self.assertGreater(slice_of.dur, 0)


if __name__ == "__main__":
    unittest.main()
