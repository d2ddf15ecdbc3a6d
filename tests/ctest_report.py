#!/usr/bin/env python3
"""Judges a run of ctest for run.sh's closing table. Usage: ctest_report.py BUILD JUNIT_XML [SANITIZER_REPORTS]

A test that failed is repeated twice, alone: it is a flake if both pass, else a failure. Tests of real processes fail now and then
on a busy machine; a sanitizer's report is never chance, so a file in SANITIZER_REPORTS (the sanitizers' log_path), or a report in
a test's output, fails the run whatever the repetition does.

Prints a summary, then a line for each failure, flake and skipped test with its reason, then the slowest tests. What the repetitions
and the sanitizers print goes to stderr. Exit status 1: the run failed.
"""
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 5
REPEATED_MAX = 8  # more failures than this have one cause, and are not repeated
REPORT_LINES = 60
SANITIZER = re.compile(r"(?:ERROR|WARNING|FATAL): \w+Sanitizer\b|: runtime error: ")


def is_skipped(case):
    """By its own choice: a test whose program is missing has not run either."""
    skipped = case.find("skipped")
    return case.get("status") == "disabled" or (skipped is not None and "SKIP_" in skipped.get("message", ""))


def output_of(case):
    return case.findtext("system-out") or ""


def reason_of(case):
    """Why a test says that it was skipped: what it printed last, or what gtest printed between place and mark."""
    lines = [x.strip() for x in output_of(case).splitlines() if x.strip()]
    gtest = [i for i, x in enumerate(lines) if re.search(r": Skipped$", x)]
    if gtest:
        reason = " ".join(x for x in lines[gtest[0] + 1:] if not x.startswith("["))
        # With several skips in one case, the first says enough.
        return reason.split(": Skipped")[0] or "GTEST_SKIP without a reason"
    return lines[-1] if lines else "no reason given"


def passes_alone(build, name):
    command = ["ctest", "--test-dir", build, "--tests-regex", f"^{re.escape(name)}$", "--output-on-failure", "--no-tests=error"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode == 0


def why_failed(build, case):
    """None: it is a flake."""
    if SANITIZER.search(output_of(case)):
        return "a sanitizer's report"
    if case.get("status") == "notrun":
        return "it could not be run"
    for turn in ("first", "second"):
        if not passes_alone(build, case.get("name")):
            return f"and failed again, alone, the {turn} time"
    return None


def sanitizer_reports(folder):
    """The first telling line of each, whose text is printed."""
    for file in sorted(pathlib.Path(folder).iterdir()):
        lines = file.read_text(errors="replace").splitlines()
        print(f"== {file}", *lines[:REPORT_LINES], sep="\n", file=sys.stderr)
        yield f"sanitizer: {next((x for x in lines if SANITIZER.search(x)), 'no text')} ({file})"


def report(build, junit, reports=None):
    """The lines, and whether the run passed."""
    # ctest writes control characters of a test's output as they are.
    text = re.sub(r"[^\t\n\r\x20-\U0010ffff]|&#x?[0-9a-fA-F]+;", "?", junit)
    cases = list(ElementTree.fromstring(text).iter("testcase"))
    skipped = [x for x in cases if is_skipped(x)]
    unhappy = [x for x in cases if x.get("status") in ("fail", "notrun") and x not in skipped]
    why = {x.get("name"): "not repeated, as many failed" if len(unhappy) > REPEATED_MAX else why_failed(build, x) for x in unhappy}
    failed = {name: reason for name, reason in why.items() if reason is not None}
    flakes = sorted(name for name, reason in why.items() if reason is None)
    found = list(sanitizer_reports(reports)) if reports else []
    slowest = sorted(cases, key=lambda x: -float(x.get("time", 0)))[:SLOWEST]
    counts = ((failed, "failed"), (flakes, "flaky"), (found, "sanitizer reports"), (skipped, "skipped"))
    lines = [", ".join([f"{len(cases)} tests"] + [f"{len(x)} {word}" for x, word in counts if x])]
    lines += [f"failed: {name} ({reason})" for name, reason in failed.items()]
    lines += [f"flake: {name} (failed, then passed twice alone)" for name in flakes]
    lines += found
    lines += [f"skipped: {x.get('name')}: {reason_of(x)}" for x in skipped]
    lines.append("slowest: " + ", ".join(f"{x.get('name')} {float(x.get('time', 0)):.0f} s" for x in slowest))
    return lines, bool(cases) and not failed and not found


def main():
    build, junit, *reports = sys.argv[1:]
    if not pathlib.Path(junit).exists():
        print("ctest could not run the tests")
        return 1
    lines, passed = report(build, pathlib.Path(junit).read_text(errors="replace"), *reports)
    print("\n".join(lines))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
