"""What plot draws is well-formed, and everything that was measured is in it, where it belongs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PLOT = pathlib.Path(__file__).resolve().parent / "plot"
SVG = "{http://www.w3.org/2000/svg}"


def run_of(system, world, size, ms, turn=1, rank=0):
    return {"system": system, "world": world, "bytes": size, "round": turn, "rank": rank, "time_ms_median": ms}


class PlotTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, what):
        path = self.directory / name
        path.write_text(what if isinstance(what, str) else "".join(json.dumps(run) + "\n" for run in what))
        return str(path)

    def plot(self, *arguments):
        out = self.directory / "out.svg"
        done = subprocess.run([sys.executable, "-B", str(PLOT), "--out", str(out), *arguments], capture_output=True,
                              text=True, check=False)
        return done, out

    def drawn(self, *arguments):
        """Name of a line -> its points, in pixels."""
        done, out = self.plot(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        root = xml.etree.ElementTree.parse(out).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        names = [text.text for text in root.iter(SVG + "text") if text.get("class") == "legend"]
        lines = [line.get("points").split() for line in root.iter(SVG + "polyline") if line.get("class") == "series"]
        self.assertEqual(len(names), len(lines))
        return {name: [tuple(map(float, point.split(","))) for point in line] for name, line in zip(names, lines)}

    def test_every_system_and_world_is_a_line_over_all_its_sizes(self):
        runs = [run_of(system, world, size, size / 1e4 * world)
                for system in ("ringway", "gloo") for world in (2, 4) for size in (4096, 1 << 20, 64 << 20)]
        lines = self.drawn(self.write("runs.jsonl", runs))
        self.assertEqual(sorted(lines), ["gloo world 2", "gloo world 4", "ringway world 2", "ringway world 4"])
        for points in lines.values():
            self.assertEqual(len(points), 3)
            self.assertEqual(points, sorted(points), "larger sizes are further right")
            self.assertEqual([y for _, y in points], sorted((y for _, y in points), reverse=True), "slower is higher")
        self.assertGreater(lines["gloo world 2"][0][1], lines["gloo world 4"][0][1])

    def test_what_ringway_bench_compared_with_is_drawn_beside_it(self):
        whole = {"rank": 0, "results": [{"bytes": 4096, "world_size": 2, "time_ms_median": 1.0,
                                         "compare": {"gloo": {"time_ms_median": 2.0}}}]}
        lines = self.drawn(self.write("bench.json", json.dumps(whole)))
        self.assertEqual(sorted(lines), ["gloo world 2", "ringway world 2"])

    def test_against_the_world_every_system_and_size_is_a_line(self):
        runs = [run_of("ringway", world, size, 1.0 * world) for world in (2, 4, 8) for size in (4096, 1 << 20)]
        lines = self.drawn("--x", "world", self.write("runs.jsonl", runs))
        self.assertEqual({name: len(points) for name, points in lines.items()}, {"ringway 1M": 3, "ringway 4K": 3})

    def test_rounds_and_ranks_are_one_point_their_median(self):
        odd = [run_of("ringway", 2, 4096, ms, turn, rank)
               for turn, ms in ((1, 10.0), (2, 20.0), (3, 500.0)) for rank in (0, 1)]
        lines = self.drawn("odd=" + self.write("odd.jsonl", odd),
                           "plain=" + self.write("plain.jsonl", [run_of("ringway", 2, 4096, 20.0)]))
        self.assertEqual(lines["odd ringway world 2"], lines["plain ringway world 2"])

    def test_results_of_ringway_bench_are_drawn_by_the_names_they_are_given(self):
        results = {"results": [{"bytes": size, "world_size": 4, "time_ms_median": 5.0} for size in (0, 4096, 8192)],
                   "rank": 0}
        path = self.write("bench.json", json.dumps(results, indent=2))
        lines = self.drawn(f"a<b&c={path}", path)
        self.assertEqual({name: len(points) for name, points in lines.items()},
                         {"a<b&c ringway world 4": 2, "ringway world 4": 2})

    def test_each_run_of_goodput_is_a_bar_as_long_as_what_is_left(self):
        run = {"fault": "slow", "network": "us", "world": 4, "quorum": 3, "period": None, "without": 40, "under": 38, "goodput": 0.95}
        runs = [run, {**run, "fault": "trainer", "quorum": 0, "period": 10, "goodput": 0.475}]
        done, out = self.plot("--goodput", self.write("goodput.jsonl", runs))
        self.assertEqual(done.returncode, 0, done.stderr)
        root = xml.etree.ElementTree.parse(out).getroot()
        first, second = [float(bar.get("width")) for bar in root.iter(SVG + "rect") if bar.get("class") == "bar"]
        self.assertAlmostEqual(first, 2 * second, delta=0.2)
        texts = [text.text for text in root.iter(SVG + "text")]
        for wanted in ("us, slow, quorum 3", "us, trainer every 10 s", "0.95", "0.47"):
            self.assertIn(wanted, texts)
        done, _ = self.plot("--goodput", self.write("bad", '{"fault": "slow"}'))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)

    def test_what_cannot_be_drawn_is_one_line(self):
        for what in ("", "no json", "[]", "3", '{"results": 3}', '{"results": []}', '{"system": "gloo"}'):
            done, out = self.plot(self.write("bad", what))
            self.assertEqual(done.returncode, 1, what)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("bad", done.stderr)
            self.assertFalse(out.exists())
        done, _ = self.plot(str(self.directory / "absent"))
        self.assertIn("absent", done.stderr)


if __name__ == "__main__":
    unittest.main()
