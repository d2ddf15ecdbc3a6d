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
foreach(name good bad mood relapse gone)
  add_test(NAME ${name} COMMAND sh ${CMAKE_SOURCE_DIR}/${name}.sh)
endforeach()
add_test(NAME race.Once/0 COMMAND sh ${CMAKE_SOURCE_DIR}/race.sh)
add_test(NAME missing COMMAND /nonexistent/program)
add_test(NAME no_device COMMAND sh ${CMAKE_SOURCE_DIR}/no_device.sh)
set_tests_properties(no_device PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME Suite.NeedsRoot/0 COMMAND sh ${CMAKE_SOURCE_DIR}/gtest_skip.sh)
set_tests_properties(Suite.NeedsRoot/0 PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
foreach(number RANGE 1 8)
  add_test(NAME many${number} COMMAND false)
endforeach()
"""
# Each counts its runs in a file: `mood` fails in its first, `relapse` in its first and third.
COUNT = 'echo >>{0}; runs=$(wc -l <{0}); '
SCRIPTS = {
    "good.sh": "true",
    "bad.sh": "false",
    "gone.sh": "kill -KILL $$",
    "mood.sh": COUNT.format("mood") + "test $runs -gt 1",
    "relapse.sh": COUNT.format("relapse") + "test $runs -eq 2",
    "race.sh": COUNT.format("race") + "echo 'WARNING: ThreadSanitizer: data race (pid=1)'; test $runs -gt 1",
    "no_device.sh": "echo starting; echo no device here; exit 77",
    "gtest_skip.sh": r"printf '/x/a_test.cc:12: Skipped\nneeds <root>\n\n[  SKIPPED ] it\n'",
}


def judge(pattern, reports=None):
    """The lines and the verdict of a run of the tests whose names match; reports: name -> text, of sanitizers."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "CMakeLists.txt").write_text(PROJECT)
        for script, text in SCRIPTS.items():
            (folder / script).write_text(text)
        (folder / "reports").mkdir()
        for file, text in (reports or {}).items():
            (folder / "reports" / file).write_text(text)
        subprocess.run(["cmake", "-B", folder / "build", folder], check=True, capture_output=True)
        subprocess.run(["ctest", "--test-dir", folder / "build", "--output-junit", folder / "junit.xml", "-R", pattern],
                       capture_output=True, check=False)
        return ctest_report.report(folder / "build", (folder / "junit.xml").read_text(), folder / "reports")


class CtestReportTest(unittest.TestCase):
    def test_flakes_and_skips_are_named_and_fail_nothing(self):
        lines, passed = judge("good|mood|no_device|NeedsRoot")
        self.assertTrue(passed)
        self.assertEqual(lines[:4], [
            "4 tests, 1 flaky, 2 skipped",
            "flake: mood (failed, then passed twice alone)",
            "skipped: no_device: no device here",
            "skipped: Suite.NeedsRoot/0: needs <root>",
        ])
        self.assertTrue(lines[4].startswith("slowest: "))

    def test_what_fails_again_is_a_failure(self):
        lines, passed = judge("good|bad|relapse|gone")
        self.assertFalse(passed)
        self.assertEqual(lines[:4], [
            "4 tests, 3 failed",
            "failed: bad (and failed again, alone, the first time)",
            "failed: relapse (and failed again, alone, the second time)",
            "failed: gone (and failed again, alone, the first time)",
        ])

    def test_a_sanitizers_report_is_no_flake(self):
        lines, passed = judge("race")
        self.assertFalse(passed)
        self.assertEqual(lines[:2], ["1 tests, 1 failed", "failed: race.Once/0 (a sanitizer's report)"])

    def test_a_sanitizers_report_fails_tests_that_passed(self):
        lines, passed = judge("good", {"report.12": "x\n==12==ERROR: AddressSanitizer: heap-use-after-free on\n"})
        self.assertFalse(passed)
        self.assertEqual(lines[0], "1 tests, 1 sanitizer reports")
        self.assertIn("heap-use-after-free", lines[1])

    def test_a_missing_program_is_a_failure(self):
        lines, passed = judge("good|missing")
        self.assertFalse(passed)
        self.assertEqual(lines[:2], ["2 tests, 1 failed", "failed: missing (it could not be run)"])

    def test_many_failures_are_not_repeated(self):
        lines, passed = judge("many|mood")
        self.assertFalse(passed)
        self.assertEqual(lines[0], "9 tests, 9 failed")
        self.assertIn("failed: mood (not repeated, as many failed)", lines)


if __name__ == "__main__":
    unittest.main()
