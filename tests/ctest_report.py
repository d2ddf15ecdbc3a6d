#!/usr/bin/env python3
"""What a run of ctest comes to, for run.sh's closing table. Usage: ctest_report.py LOG JUNIT_XML

The first line is a summary; then comes one line for each test that failed, that failed at first and passed when repeated
(flake), or that was skipped, with the reason it gave; then the slowest.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 5


def unhappy_in(log):
    """The names of tests that ended in any way but passing or skipping, at the first attempt or at a later one."""
    return re.findall(r"Test +#\d+: (.*?) \.+ *\*\*\*(?!Skipped|Not Run \(Disabled\))", log)


def reason_of(case):
    """Why a test says that it was skipped: what it printed last, or what gtest printed between place and mark."""
    lines = [x.strip() for x in (case.findtext("system-out") or "").splitlines() if x.strip()]
    gtest = [i for i, x in enumerate(lines) if re.search(r": Skipped$", x)]
    if gtest:
        reason = " ".join(x for x in lines[gtest[0] + 1:] if not x.startswith("["))
        # With several skips in one case, the first says enough.
        return reason.split(": Skipped")[0] or "GTEST_SKIP without a reason"
    return lines[-1] if lines else "no reason given"


def report(log, junit):
    cases = list(ElementTree.fromstring(re.sub(r"[^\t\n\r\x20-\U0010ffff]|&#x?[0-9a-fA-F]+;", "?", junit)).iter("testcase"))
    failed = [x.get("name") for x in cases if x.get("status") == "fail"]
    skipped = [x for x in cases if x.get("status") in ("notrun", "disabled")]
    flakes = sorted(set(unhappy_in(log)) - set(failed) - {x.get("name") for x in skipped})
    slowest = sorted(cases, key=lambda x: -float(x.get("time", 0)))[:SLOWEST]
    yield ", ".join([f"{len(cases)} tests"] + [f"{len(x)} {word}" for x, word in
                                               ((failed, "failed"), (flakes, "flaky"), (skipped, "skipped")) if x])
    yield from (f"failed: {x}" for x in failed)
    yield from (f"flake: {x} (failed, passed when repeated)" for x in flakes)
    yield from (f"skipped: {x.get('name')}: {reason_of(x)}" for x in skipped)
    yield "slowest: " + ", ".join(f"{x.get('name')} {float(x.get('time', 0)):.0f} s" for x in slowest)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        text = log.read()
    with open(sys.argv[2], encoding="utf-8", errors="replace") as junit:
        print("\n".join(report(text, junit.read())))


if __name__ == "__main__":
    main()
