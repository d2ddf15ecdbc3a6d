"""The pure part of networks.py: its cells exist, its limits are those of networks that can be computed by hand, and its table
shows all that was measured, failures too."""

import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import types
import unittest
import unittest.mock

import network_cells as cells
import networks

BENCH = pathlib.Path(__file__).resolve().parent
SCENARIOS = BENCH.parent / "wan" / "scenarios"
MIB = 1 << 20


def network(count, delay_ms=50.0, loss=0.0, mbit=0.0, **host):
    facts = {"uplink_mbit": 0.0, "downlink_mbit": 0.0, "shared_mbit": 0.0, "police_mbit": 0.0, **host}
    return {"hosts": [{"site": f"s{i}", **facts} for i in range(count)],
            "paths": [[{"delay_ms": delay_ms, "mbit": mbit, "loss": loss} for _ in range(count)] for _ in range(count)]}


def record(contender, times, **more):
    return {"cell": "bbr/us", "contender": contender, "bytes": 64 * MIB, "round": 1, "limit_ms": 1000.0, "times_ms": times, **more}


class CellsTest(unittest.TestCase):
    def test_every_network_with_both_congestion_controls_and_all_queues_is_a_cell(self):
        for ways, count in ((["packets"], 2 * 3 * 12 + 2 * 5), (["device"], 2 * 3 * 10 + 2 * 5), (cells.DROPS, 2 * 82 + 70)):
            names = [cell.name for cell in cells.all_cells(ways)]
            self.assertEqual(len(names), count)
            self.assertEqual(len(set(names)), len(names))
        for cell in cells.all_cells():
            self.assertTrue((SCENARIOS / f"{cell.scenario.split(':')[0]}.toml").exists(), cell.scenario)
            self.assertIn(f"congestion={cell.congestion}", cell.scenario)
            self.assertEqual(cell.scenario.count(":"), 1)

    def test_queues_of_each_cell_drop_packets_or_super_packets_and_at_the_device_where_hosts_have_one_rate(self):
        for cell in cells.cells_without_drops():
            sites = tomllib.loads((SCENARIOS / f"{cell.scenario.split(':')[0]}.toml").read_text())["site"]
            fits = all("uplink_mbit" in site and "schedule" not in site for site in sites)
            self.assertEqual(cell.kind not in cells.NOT_AT_DEVICE, fits, cell.name)
        names = [(cell.name, cell.scenario) for cell in cells.chosen("cubic/q20/200-rtt20,cubic/q20/d*", cells.DROPS[:2])]
        us = "us:uplink_mbit=200,delay_ms=10,congestion=cubic,queue_ms=20"
        dip = "dip:congestion=cubic,queue_ms=20"
        self.assertEqual(names, [("cubic/q20/200-rtt20", us), ("cubic/q20/dip", dip),
                                 ("cubic/q20/200-rtt20+super-packets", f"{us},drops=super-packets"),
                                 ("cubic/q20/dip+super-packets", f"{dip},drops=super-packets")])
        with self.assertRaisesRegex(ValueError, "cubic/q20/dip where queues drop device"):
            cells.chosen("cubic/q20/dip", ["device"])

    def test_patterns_choose_cells_and_one_that_matches_none_is_named(self):
        self.assertEqual([cell.name for cell in cells.chosen("bbr/us,cubic/q20/d*")], ["cubic/q20/dip", "bbr/us"])
        with self.assertRaisesRegex(ValueError, "cubic/q21"):
            cells.chosen("bbr/us,cubic/q21/*")

    def test_the_dip_is_where_its_scenario_has_it(self):
        sites = tomllib.loads((SCENARIOS / "dip.toml").read_text())["site"]
        schedules = [site["schedule"] for site in sites if "schedule" in site]
        self.assertEqual(schedules, [f"{networks.DIP_BEGIN_S}:80 {networks.DIP_END_S}:800"])


class LimitTest(unittest.TestCase):
    def assert_limit(self, facts, mbit_bytes, delay_ms=50):
        """`mbit_bytes`: buffers that have to pass, over the Mbit/s that they pass at."""
        expected = 64 * MIB * 8 / 1e3 * cells.WIRE * mbit_bytes + delay_ms
        self.assertAlmostEqual(cells.limit_ms(facts, 64 * MIB), expected, places=3)

    def test_equal_uplinks_carry_what_a_ring_sends(self):
        self.assert_limit(network(4, uplink_mbit=800), 1.5 / 800)
        self.assert_limit(network(4, downlink_mbit=800), 1.5 / 800)
        self.assert_limit(network(4, mbit=100), 1.5 / 300)

    def test_a_policer_and_losses_lower_the_rate(self):
        self.assert_limit(network(4, uplink_mbit=800, police_mbit=400), 1.5 / 400)
        self.assert_limit(network(4, uplink_mbit=800, loss=0.5), 1.5 / 400)

    def test_a_slow_host_passes_one_buffer_and_the_others_make_up_for_it(self):
        facts = network(4, uplink_mbit=800)
        facts["hosts"][2]["uplink_mbit"] = 600
        self.assert_limit(facts, 6 / 3000)
        facts["hosts"][2]["uplink_mbit"] = 200
        self.assert_limit(facts, 1 / 200)

    def test_hosts_of_a_site_share_its_way_out(self):
        facts = network(4)
        for i, host in enumerate(facts["hosts"]):
            host.update(site="ab"[i // 2], shared_mbit=400)
        self.assert_limit(facts, 1 / 400)

    def test_the_longest_delay_is_that_of_the_quickest_way(self):
        facts = network(3)
        facts["paths"][0][2]["delay_ms"] = 400.0
        self.assertEqual(cells.limit_ms(facts, 0), 100)


class TimesTest(unittest.TestCase):
    def test_an_operation_takes_the_median_of_its_ranks_and_begins_when_the_last_one_ended(self):
        results = [{"times_ms": [100.0, 300.0], "began_s": 7.0}, {"times_ms": [300.0, 500.0], "began_s": 8.0}]
        self.assertEqual(cells.times_of_ranks(results), ([200.0, 400.0], [7.0, 7.1]))
        self.assertEqual(cells.times_of_ranks([{"times_ms": [1.0, 2.0], "starts_s": [5, 9]}]), ([1.0, 2.0], [5, 9]))

    def test_recovery_ends_with_the_first_operation_at_nine_tenths_of_the_rate_before(self):
        times, starts = [1000.0, 1000, 9000, 2000, 1150, 1100, 1000], [0, 1, 2, 11, 13, 14.15, 15.25]
        self.assertAlmostEqual(cells.recovery_s(times, starts, 2.5, 10.5), 3.65)
        self.assertEqual(cells.outside(times, starts, 2.5, 10.5), [1000, 1000, 2000, 1150, 1100, 1000])
        self.assertIsNone(cells.recovery_s(times, starts, 0.5, 10.5), "none had ended before")
        self.assertIsNone(cells.recovery_s(times[:5], starts[:5], 2.5, 10.5), "it never recovered")

    def test_jobs_are_compared_while_all_are_at_it(self):
        self.assertEqual(cells.jain([3, 3, 3]), 1)
        self.assertAlmostEqual(cells.jain([1, 0, 0, 0]), 0.25)
        self.assertIsNone(cells.jain([0, 0]))
        self.assertAlmostEqual(cells.operations_between([1000, 1000], [0, 1], 0.5, 1.25), 0.75)
        quick, slow = ([500.0] * 4, [0, 0.5, 1, 1.5]), ([1000.0] * 4, [0, 1, 2, 3])
        self.assertAlmostEqual(cells.jain_of_jobs([quick, slow]), (4 + 2) ** 2 / (2 * (4 ** 2 + 2 ** 2)))
        self.assertIsNone(cells.jain_of_jobs([([1000.0], [0]), ([1000.0], [5])]))


class ContestTest(unittest.TestCase):
    def contest(self, kind="clean"):
        facts = types.SimpleNamespace(facts=network(4, uplink_mbit=800), program=pathlib.Path)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return networks.Contest(cells.Cell("c", "us", "cubic", kind), facts, networks.parse([]), pathlib.Path(directory.name))

    def test_slow_contenders_run_fewer_operations_and_small_operations_are_many(self):
        contest = self.contest()
        self.assertEqual(contest.iterations("tcp", 64 * MIB), networks.FIRST_ITERATIONS)
        for seconds, iterations in ((1.2, 5), (10, 3), (200, 1)):
            contest.known["tcp", 64 * MIB] = seconds
            self.assertEqual(contest.iterations("tcp", 64 * MIB), iterations)
        self.assertEqual(contest.iterations("tcp", 4096), networks.SMALL_ITERATIONS)

    def test_what_was_late_runs_one_operation_and_is_given_up_when_that_is_late_too(self):
        contest = self.contest()
        command = contest.command("tcp", [0, 1], 0, 64 * MIB, 2, "out")
        contest.measure = unittest.mock.Mock(side_effect=networks.Late("not done in 3 s"))
        self.assertEqual(contest.round("tcp", 64 * MIB)["failed"], "not done in 3 s")
        self.assertFalse(contest.gave_up("tcp", 64 * MIB))
        self.assertEqual(contest.iterations("tcp", 64 * MIB), 1)
        self.assertNotEqual(contest.command("tcp", [0, 1], 0, 64 * MIB, 2, "out"), command, "it warms up no more")
        contest.round("tcp", 64 * MIB)
        self.assertTrue(contest.gave_up("tcp", 64 * MIB))
        self.assertFalse(contest.gave_up("tcp", 4096))
        self.assertFalse(contest.gave_up("gloo", 64 * MIB))

    def test_a_failure_that_is_not_late_is_tried_again(self):
        contest = self.contest()
        contest.measure = unittest.mock.Mock(side_effect=networks.Failed("host 2 ended with 1: why"))
        for _ in range(3):
            self.assertEqual(contest.round("gloo", 64 * MIB)["failed"], "host 2 ended with 1: why")
        self.assertFalse(contest.gave_up("gloo", 64 * MIB))
        self.assertEqual(contest.gloo, {64 * MIB: networks.GLOO_FALLBACK})

    def test_operations_in_a_dip_last_until_well_after_it(self):
        contest = self.contest("dip")
        whole_s = contest.iterations("tcp", 64 * MIB) * 1.1
        self.assertGreater(whole_s, networks.DIP_END_S)


class TableTest(unittest.TestCase):
    def test_a_row_has_the_median_of_all_operations_of_all_rounds_and_the_ratio_to_the_limit(self):
        lines = cells.table([record("ringway", [1100, 1200]), record("ringway", [1300], round=2), record("tcp", [4.04])])
        head, _, row = lines.splitlines()
        self.assertEqual(head.count("|"), row.count("|"))
        self.assertEqual(row, "| bbr/us | 64M | 1000 | 1200 | 1.20 |  |  | 4.0 | 0.00 |  |")

    def test_a_later_run_of_a_round_replaces_it(self):
        self.assertIn("| 900 | 0.90 |", cells.table([record("ringway", [5000]), record("ringway", [900])]))

    def test_failures_are_rows_that_say_so(self):
        whole = record("gloo", [2000], round=2)
        broken = {**record("gloo", []), "failed": "not done in 300 s | or so"}
        del broken["times_ms"]
        row = cells.table([broken, whole]).splitlines()[2]
        self.assertIn("| 2000 | 2.00 |", row)
        self.assertIn("gloo: 1 of 2 rounds failed: not done in 300 s / or so", row)
        self.assertIn("| failed |  |", cells.table([broken]))
        no_network = {**broken, "limit_ms": 0, "round": 3}
        self.assertIn("| 64M | 1000 |  |  | 2000 | 2.00 |", cells.table([whole, no_network]))
        self.assertIn("| 64M | 0.0 |  |  | failed |  |", cells.table([no_network]))

    def test_shares_recoveries_and_fairness_are_remarks(self):
        row = cells.table([record("ringway", [1], share=0.4, recovery_s=2.0, jain=0.98), record("tcp", [1], share=0.5)])
        self.assertIn("ringway: foreign share 40%, recovers in 2.0 s, Jain 0.98; tcp: foreign share 50%", row)

    def test_a_network_that_the_machine_was_too_busy_for_is_a_remark(self):
        rounds = [record("ringway", [1], deliveries=100, late=0), record("ringway", [1], round=2, deliveries=100, late=10)]
        self.assertIn("ringway: 5% of deliveries late", cells.table(rounds))
        self.assertNotIn("late", cells.table(rounds[:1]))

    def test_the_program_renders_the_chosen_cells_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "runs.jsonl")
            path.write_text("".join(json.dumps(each) + "\n" for each in
                                    (record("ringway", [1]), {**record("ringway", [1]), "cell": "cubic/us"})))
            said = subprocess.run([sys.executable, "-B", BENCH / "networks.py", "--render", "--json", path, "--cells", "cubic/*"],
                                  capture_output=True, text=True, check=True).stdout
            self.assertEqual(len(said.splitlines()), 3)
            self.assertIn("| cubic/us |", said)
            path.write_text("no record\n")
            for wrong, why in ((["--json", path], "no measurements"), (["--cells", "x"], "no cell is called x"),
                               (["--only", "mpi"], "ringway,gloo,tcp"), (["--drops", "bytes"], "packets,super-packets,device"), (["--sizes", "4X"], "not a size: 4X"),
                               (["--rounds", "0"], "a number from 1"), (["--json", path / "absent"], "absent")):
                done = subprocess.run([sys.executable, "-B", BENCH / "networks.py", "--render", *wrong], capture_output=True,
                                      text=True, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
