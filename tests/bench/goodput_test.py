"""Where the time after a death goes, from what daemons log and trainers write."""

import contextlib
import io
import unittest

import cluster
import goodput


def event(at, name, fields=""):
    return cluster.Event(at, name, fields)


def step(at, revision, begun=0.0, retries=0):
    return {"at": at, "revision": revision, "world": 3, "begun": begun, "reduced": at, "retries": retries}


class GoodputTest(unittest.TestCase):
    def setUp(self):
        self.death = goodput.Death(victim=2, at=100.0, until=110.0)
        self.logs = [
            [event(99.0, "view_installed", "epoch=1.1 world=3"), event(100.2, "peer_lost"), event(100.3, "view_installed", "world=2"),
             event(103.0, "view_installed", "world=3")],
            [event(100.1, "abort"), event(100.4, "view_installed", "world=2"), event(103.5, "view_installed", "world=3")],
            [event(90.0, "ready"), event(90.5, "trainer_joins"), event(101.0, "ready"), event(101.5, "trainer_joins"),
             event(103.2, "view_installed", "world=3")]]
        self.steps = [[step(99.5, 1, 99.0), step(100.9, 2, 99.6, 1), step(102.0, 3, 101.0), step(105.5, 4, 103.6)],
                      [step(99.5, 1, 99.0), step(101.1, 2, 99.7, 1), step(102.0, 3, 101.1), step(105.5, 4, 103.6)],
                      [step(99.5, 1, 99.0), {"joined": 2.0, "at": 103.8, "said": []}, step(105.6, 4, 103.9)]]

    def test_parts_of_a_death_are_the_last_rank_s(self):
        parts = goodput.parts_of(self.death, self.logs, self.steps)
        expected = dict(zip(goodput.PARTS, (0.1, 0.4, 1.1, 1.0, 1.5, 3.5, 3.8, 5.6)))
        self.assertEqual(parts.keys(), expected.keys())
        for name, value in expected.items():
            self.assertAlmostEqual(parts[name], value, msg=name)

    def test_what_comes_after_the_next_death_is_not_of_this_one(self):
        parts = goodput.parts_of(goodput.Death(2, 100.0, 103.4), self.logs, self.steps)
        self.assertIn("its trainer asks to join", parts)
        self.assertNotIn("view with it on all", parts)
        self.assertNotIn("its first step", parts)

    def test_attempt_is_thrown_away_until_the_death(self):
        self.assertAlmostEqual(goodput.thrown_away(self.death, self.steps), 0.4)
        self.assertIsNone(goodput.thrown_away(goodput.Death(2, 101.5, 110.0), self.steps), "that step was not tried again")

    def test_table_has_medians_and_how_many_deaths_had_a_part(self):
        rows = list(goodput.table([self.death, goodput.Death(2, 100.0, 103.4)], self.logs, self.steps))
        self.assertIn("| its first step | 5.60 | 5.60 | 1 |", rows)
        self.assertIn("| a member notices | 0.10 | 0.10 | 2 |", rows)

    def test_of_a_join_the_parts_before_it_is_asked_for_are_none(self):
        rows = list(goodput.table([self.death], self.logs, self.steps, "joins"))
        self.assertIn("| its first step | 5.60 | 5.60 | 1 |", rows)
        self.assertFalse([row for row in rows if "notices" in row or "daemon is back" in row])

    def test_several_faults_are_runs_one_after_the_other(self):
        self.assertEqual(goodput.parse(["--fault", "join,slow"]).fault, ["join", "slow"])
        self.assertEqual(goodput.founders(goodput.parse(["--fault", "join", "--world", "3"])), 2)
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            goodput.parse(["--fault", "join,sloth"])

    def test_steps_count_once_by_whoever_was_first(self):
        self.assertEqual(goodput.counts_of(self.steps, ((99.0, 100.0), (100.0, 106.0))), [1, 3])

    def test_logs_are_read_with_their_numbers(self):
        text = "2026-11-30T12:00:00.250Z info view_installed group=g epoch=1.2 world=3\nno event\n"
        found = list(cluster.events(text))
        self.assertEqual([(each.name, each.number("world"), each.number("rank")) for each in found], [("view_installed", 3, 0)])
        self.assertAlmostEqual(found[0].at % 1, 0.25)


if __name__ == "__main__":
    unittest.main()
