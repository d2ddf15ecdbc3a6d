"""Runs all tests here; their progress goes to stderr, and to stdout one line of what ran, one for each flake and one for each
test that was skipped. A test that failed is repeated twice, alone, in a process of its own: it is a flake if both pass."""
import re
import subprocess
import sys
import unittest

REPEATED_MAX = 8  # more failures than this have one cause, and are not repeated


def name_of(test):
    """What unittest takes on its command line: the test, or the class whose setUpClass failed."""
    within = re.fullmatch(r"(?:setUp|tearDown)\w+ \((.*)\)", test.id())
    return within[1] if within else test.id().split(" ")[0]  # a subtest's parameters follow


def passes_twice_alone(name):
    command = [sys.executable, "-B", "-m", "unittest", "--verbose", name]
    return all(subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0 for _ in range(2))


def main():
    suite = unittest.defaultTestLoader.discover(".", pattern="*_test.py")
    count = suite.countTestCases()
    result = unittest.TextTestRunner(sys.stderr, verbosity=2).run(suite)
    unhappy = {name_of(test) for test, _ in result.failures + result.errors} | {name_of(x) for x in result.unexpectedSuccesses}
    flakes = {name for name in unhappy if len(unhappy) <= REPEATED_MAX and passes_twice_alone(name)}
    print(f"{count - len(result.skipped)} tests")
    for name in sorted(unhappy):
        print(f"flake: {name} (failed, then passed twice alone)" if name in flakes else f"failed: {name}")
    for test, reason in result.skipped:
        print(f"skipped: {test.id()}: {reason}")
    return 0 if count > 0 and unhappy == flakes else 1


if __name__ == "__main__":
    sys.exit(main())
