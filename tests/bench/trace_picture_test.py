"""What trace_picture draws is well-formed, and each chunk of the operation is in it, where it belongs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PICTURE = pathlib.Path(__file__).resolve().parent / "trace_picture"
SVG = "{http://www.w3.org/2000/svg}"


def slice_of(category, process, name, begin, end, number, **args):
    event = {"cat": category, "pid": process, "tid": 0, "name": name, "id": f"{process}.{number}"}
    return [{**event, "ph": "b", "ts": begin, "args": args}, {**event, "ph": "e", "ts": end}]


def trace_of(operations):
    """Two ranks; each operation at both, with a chunk each way."""
    events = [{"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"{name} <&> (d, here)"}}
              for process, name in ((1, "a"), (2, "b"))]
    for op, begin, size in operations:
        for process, other in ((1, "b"), (2, "a")):
            events += slice_of("operation", process, f"all_reduce {op}", begin, begin + 100_000, f"{op}o", op=op, bytes=size,
                               is_over=True, first_in_us=50_000, last_in_us=90_000, last_done_us=95_000)
            events += slice_of("chunk", process, f"to {other}", begin, begin + 40_000, f"{op}t", op=op, step=0, chunk=0, bytes=size)
            events += slice_of("chunk", process, f"from {other}", begin + 50_000, begin + 90_000, f"{op}f", op=op, step=0, chunk=1,
                               bytes=size)
    return {"traceEvents": events}


class TracePictureTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def draw(self, trace, *arguments):
        path, out = self.directory / "trace.json", self.directory / "out.svg"
        path.write_text(trace if isinstance(trace, str) else json.dumps(trace))
        run = subprocess.run([sys.executable, "-B", str(PICTURE), "--out", str(out), *arguments, str(path)], capture_output=True,
                             text=True, timeout=60)
        return run, xml.etree.ElementTree.parse(out).getroot() if run.returncode == 0 else None

    def test_newest_of_the_largest_operations_is_drawn_with_its_chunks(self):
        run, svg = self.draw(trace_of([("0:1", 0, 2 ** 20), ("0:2", 200_000, 2 ** 20), ("0:3", 400_000, 4)]))
        self.assertEqual(run.returncode, 0, run.stderr)
        chunks = [bar for bar in svg.iter(SVG + "rect") if bar.get("class") == "chunk"]
        self.assertEqual(len(chunks), 4)
        first = [bar for bar in chunks if "to b" in bar.find(SVG + "title").text]
        later = [bar for bar in chunks if "from b" in bar.find(SVG + "title").text]
        self.assertIn("1.05 MB in 40.0 ms", first[0].find(SVG + "title").text)
        self.assertEqual(float(first[0].get("x")), 150.0)
        self.assertAlmostEqual(float(later[0].get("x")), 150 + 790 / 2, places=1)
        self.assertAlmostEqual(float(later[0].get("width")), 790 * 0.4, places=1)
        phases = [bar.find(SVG + "title").text for bar in svg.iter(SVG + "rect") if bar.get("class") == "phase"]
        self.assertEqual(phases[:4], ["way of the first bytes: 50.0 ms", "data arrives: 40.0 ms", "DONE of the others: 5.0 ms",
                                      "report: 5.0 ms"])
        self.assertIn("all_reduce of 1 MiB, 100 ms: colours are chunks", [text.text for text in svg.iter(SVG + "text")])

    def test_named_operation_is_drawn(self):
        run, svg = self.draw(trace_of([("0:1", 0, 2 ** 20), ("0:2", 200_000, 2 ** 21)]), "--op", "0:1", "--title", "<one>")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("<one>", [text.text for text in svg.iter(SVG + "text")])
        self.assertIn("1.05 MB", " ".join(title.text for title in svg.iter(SVG + "title")))

    def test_nothing_to_draw_is_an_error_of_one_line(self):
        for trace, arguments in ((trace_of([]), ()), (trace_of([("0:1", 0, 4)]), ("--op", "1:1")), ("no json", ()), ("{}", ())):
            run, _ = self.draw(trace, *arguments)
            self.assertNotEqual(run.returncode, 0)
            self.assertRegex(run.stderr, r"^trace_picture: [^\n]+\n$")


if __name__ == "__main__":
    unittest.main()
