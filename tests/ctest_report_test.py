#!/usr/bin/env python3
"""Of ctest_report.py, with a real ctest over tests that pass, fail, flake and skip."""
import pathlib
import subprocess
import tempfile
import unittest

import ctest_report

PROJECT = r"""
cmake_minimum_required(VERSION 3.25)
project(sample NONE)
enable_testing()
add_test(NAME good COMMAND true)
add_test(NAME bad COMMAND false)
add_test(NAME mood COMMAND sh ${CMAKE_SOURCE_DIR}/mood.sh)
add_test(NAME no_device COMMAND sh ${CMAKE_SOURCE_DIR}/no_device.sh)
set_tests_properties(no_device PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME Suite.NeedsRoot/0 COMMAND sh ${CMAKE_SOURCE_DIR}/gtest_skip.sh)
set_tests_properties(Suite.NeedsRoot/0 PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
"""
SCRIPTS = {
    "mood.sh": "test -e mood || { touch mood; exit 1; }",
    "no_device.sh": "echo starting; echo no device here; exit 77",
    "gtest_skip.sh": r"printf '/x/a_test.cc:12: Skipped\nneeds <root>\n\n[  SKIPPED ] it\n'",
}


def lines_of(*options):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "CMakeLists.txt").write_text(PROJECT)
        for script, text in SCRIPTS.items():
            (folder / script).write_text(text)
        subprocess.run(["cmake", "-B", folder / "build", folder], check=True, capture_output=True)
        done = subprocess.run(["ctest", "--test-dir", folder / "build", "--output-junit", folder / "junit.xml", *options],
                              capture_output=True, text=True)
        return list(ctest_report.report(done.stdout, (folder / "junit.xml").read_text()))


class CtestReportTest(unittest.TestCase):
    def test_names_failures_flakes_and_skips_with_their_reasons(self):
        lines = lines_of("--repeat", "until-pass:2")
        self.assertEqual(lines[:5], [
            "5 tests, 1 failed, 1 flaky, 2 skipped",
            "failed: bad",
            "flake: mood (failed, passed when repeated)",
            "skipped: no_device: no device here",
            "skipped: Suite.NeedsRoot/0: needs <root>",
        ])
        self.assertTrue(lines[5].startswith("slowest: "))

    def test_what_is_not_repeated_is_a_failure(self):
        self.assertEqual(lines_of("-R", "mood")[:2], ["1 tests, 1 failed", "failed: mood"])


if __name__ == "__main__":
    unittest.main()
