"""Histories of simulated worlds contradict nothing, unless a bug is planted that breaks a promise: then they do.

Usage: worlds_test.py SIM_RUN MUTANTS_RUN [TEST...]. The worlds and the bugs are those of tests/sim; the verdict on their
histories is check_history.py's alone.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_history

SEEDS = 150

# Bugs that break a promise (proto/mutation.h), and the worlds to look in: the first seed, and the distance to the next.
# README.md says why the others are not here.
ANY, WITH_EVERY_KIND, WITH_MESSAGES = (1, 1), (7, 16), (8, 16)
MUST_BE_FOUND = {
    "kRetryWhatIsHeld": ANY,
    "kDecideTooEarly": ANY,
    "kTooSmallAlone": ANY,
    "kCompleteWhileFrozen": (41, 1),
    "kIgnoreMismatch": ANY,
    "kUpdateAlone": (123, 1),
    "kStayOutOfStep": (54, 1),
    "kWrongContributors": ANY,
    "kPartIsAll": WITH_EVERY_KIND,
    "kCommitOnePart": WITH_EVERY_KIND,
    "kRetryParts": WITH_EVERY_KIND,
    "kNeedNobodyReady": WITH_EVERY_KIND,
    "kForgetLayout": WITH_EVERY_KIND,
    "kStampOfTheRoot": WITH_EVERY_KIND,
    "kSendAnothersPart": WITH_EVERY_KIND,
    "kSkipDone": ANY,
    "kDoneTooEarly": ANY,
    "kAcknowledgeAhead": ANY,
    "kSendTrainersInput": ANY,
    "kStampOfOne": ANY,
    "kTakeTwice": ANY,
    "kKeepPrecision": ANY,
    "kActivateAtOnce": ANY,
    "kReuseEpoch": ANY,
    "kForgetTerm": ANY,
    "kNewcomerStartsAtOne": ANY,
    "kSenderDecides": WITH_MESSAGES,
    "kReceiveHalf": WITH_MESSAGES,
}
AT_ONCE, CHUNKS_MAX = 8, 25


class WorldsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def run_worlds(self, program, *options):
        # A planted bug may end the process: what was reported to its trainers until then is there.
        subprocess.run([program, "--history", str(self.directory), *options], capture_output=True, check=False)
        paths = sorted(self.directory.glob("*.jsonl"))
        found = {int(x.stem): check_history.check(check_history.read([x])) for x in paths}
        for path in paths:
            path.unlink()
        return found

    def test_worlds_without_a_planted_bug_contradict_nothing(self):
        found = self.run_worlds(SIM_RUN, "--seeds", str(SEEDS))
        self.assertEqual(len(found), SEEDS)
        self.assertEqual({seed: x[0][0] for seed, x in found.items() if x[0]}, {})
        self.assertGreater(sum(x[2] for x in found.values()), 100 * SEEDS, "too few outcomes for this to count")


def add_mutant(name, first, step):
    def test(self):
        for chunk in range(CHUNKS_MAX):
            begin = first + chunk * AT_ONCE * step
            worlds = ["--first", str(begin), "--seeds", str(AT_ONCE), "--step", str(step)]
            broken = [x for x, found in self.run_worlds(MUTANTS_RUN, "--mutant", name, *worlds).items() if found[0]]
            if broken:
                without = self.run_worlds(MUTANTS_RUN, "--first", str(broken[0]), "--seeds", "1")
                self.assertEqual(without[broken[0]][0], [], "this world contradicts without the bug, too")
                return
        self.fail(f"{CHUNKS_MAX * AT_ONCE} worlds, and nothing contradicts")

    setattr(WorldsTest, f"test_{name}_is_found", test)


for _name, _worlds in MUST_BE_FOUND.items():
    add_mutant(_name, *_worlds)

if __name__ == "__main__":
    SIM_RUN, MUTANTS_RUN = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
