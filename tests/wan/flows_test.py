"""Connections of flows.py move bytes, which the receiver counts; mistakes are named."""

import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import flows

FLOWS = str(pathlib.Path(__file__).resolve().parent / "flows.py")
DEADLINE_S = 30


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


class FlowsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "flows")

    def start(self, *arguments):
        process = subprocess.Popen([sys.executable, "-B", FLOWS, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_all_connections_send_and_what_arrives_is_counted(self):
        port = free_port()
        sender = self.start("send", "127.0.0.1", port, "3", "reno")  # before there is a receiver
        self.start("receive", "127.0.0.1", port, str(self.path))
        self.assertEqual([sender.stdout.readline() for _ in range(3)], 3 * ["runs reno\n"])
        begin, end, rate = time.monotonic(), time.monotonic() + DEADLINE_S, None
        while not rate and time.monotonic() < end:
            time.sleep(0.05)
            rate = flows.rate(self.path, begin, end) if self.path.exists() else None
        self.assertTrue(rate, "nothing arrived")

    def test_both_end_when_their_time_is_over(self):
        port = free_port()
        receiver = self.start("receive", "127.0.0.1", port, str(self.path), "5")
        sender = self.start("send", "127.0.0.1", port, "1", "-", "0.2")
        self.assertEqual(sender.wait(DEADLINE_S), 0)
        self.assertEqual(receiver.wait(DEADLINE_S), 0)

    def test_a_rate_is_of_the_samples_between_its_moments(self):
        self.path.write_text("1.0 0\n2.0 100\n3.0 300\n4.0 600\n5.0 7")
        self.assertEqual(flows.rate(self.path, 1.5, 4.0), 250)
        self.assertEqual(flows.rate(self.path, 0, 9), 200, "the last line is not whole")
        self.assertIsNone(flows.rate(self.path, 3.5, 4.5))

    def test_mistakes_are_named(self):
        for arguments, why in (([], "flows.py receive"), (["send", "x"], "flows.py receive"),
                               (["receive", "127.0.0.1", "0", "/nowhere/file", "0.1"], "/nowhere/file")):
            process = self.start(*arguments)
            _, said = process.communicate(timeout=2 * DEADLINE_S)
            self.assertEqual(process.returncode, 1, said)
            self.assertIn(why, said)


if __name__ == "__main__":
    unittest.main()
