"""Runs all tests here; their progress goes to stderr, and to stdout one line of what ran and one for each that was skipped."""
import sys
import unittest

suite = unittest.defaultTestLoader.discover(".", pattern="*_test.py")
count = suite.countTestCases()
result = unittest.TextTestRunner(sys.stderr, verbosity=2).run(suite)
print(f"{count - len(result.skipped)} tests")
for test, reason in result.skipped:
    print(f"skipped: {test.id()}: {reason}")
sys.exit(0 if result.wasSuccessful() and count > 0 else 1)
