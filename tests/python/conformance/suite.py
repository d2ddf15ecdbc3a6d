"""torch's own tests of a c10d backend, with "ringway": suite.py [TEST..], or suite.py --list.

Prints `outcome passed TEST`, or failed, or skipped. RINGWAY_SOCKETS: the daemons' sockets, separated by commas.
"""

import os
import re
import sys
import tempfile
import unittest

WORLD = 4
os.environ.update(BACKEND="ringway", WORLD_SIZE=str(WORLD), OMP_NUM_THREADS="1", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="120")
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
os.environ["INIT_METHOD"] = f"file://{tempfile.mkdtemp(dir=os.environ['TEMP_DIR'])}/init"

import ringway.torch  # noqa: E402  # registers the backend
import torch  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

common_distributed.skip_if_small_worldsize = lambda test: test  # of less than eight; three are enough
for feature in ("ddp", "subgroup", "plugin"):  # looked up while the tests are defined
    common_distributed.DistTestCases.backend_feature[feature].add("ringway")
from torch.testing._internal.distributed import distributed_test  # noqa: E402

TESTS = distributed_test.DistributedTest._DistTestBase
# torch runs these with backends that it knows by name, or has switched them off where one of those failed at times.
BY_NAME = re.compile(r"(?i)only (supported on )?(mpi|gloo)|gloo batch|nccl (& gloo|only)|one of .*gloo|pytorch/(issues|pull)/")

for name in unittest.defaultTestLoader.getTestCaseNames(TESTS):
    test = getattr(TESTS, name)
    if BY_NAME.search(getattr(test, "__unittest_skip_why__", "")):
        if test.__code__.co_name == "skip_wrapper":  # unittest's own, which never calls it
            test = test.__wrapped__
        test.__unittest_skip__ = False
        setattr(TESTS, name, test)


class ConformanceTest(distributed_test.TestDistBackend, TESTS):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # none imports torch anew

    @classmethod
    def _run(cls, rank, *words, **options):
        sockets = os.environ["RINGWAY_SOCKETS"].split(",")
        os.environ["RINGWAY_SOCKET"] = sockets[rank % len(sockets)]
        super()._run(rank, *words, **options)

    def run_test(self, name, *words):
        if name.startswith("test_accumulate_gradients_no_sync"):  # which ask by the name where tensors are
            distributed_test.BACKEND = "gloo"
        super().run_test(name, *words)


class Outcomes(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.outcome = f"passed {test._testMethodName}"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = f"skipped {test._testMethodName}: {reason}"

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.outcome = f"failed {test._testMethodName}"

    def addError(self, test, error):
        super().addError(test, error)
        self.outcome = f"failed {test._testMethodName}"

    def stopTest(self, test):
        super().stopTest(test)
        print("outcome", self.outcome, flush=True)


def main():
    names = unittest.defaultTestLoader.getTestCaseNames(TESTS)
    if sys.argv[1:] == ["--list"]:
        print(*names, sep="\n")
        return
    tests = unittest.TestSuite(ConformanceTest(name) for name in sys.argv[1:] or names)
    unittest.TextTestRunner(sys.stderr, verbosity=2, resultclass=Outcomes).run(tests)


main()
