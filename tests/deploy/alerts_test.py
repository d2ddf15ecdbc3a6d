#!/usr/bin/env python3
"""The alerts for Prometheus, by `promtool test rules`, on the series of a real master and daemon: none fires for them as they are,
and each fires, alone, once its series are those of what it is for.

alerts_test.py BIN: the folder of the programs. Skipped (77) without promtool (apt install prometheus).
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

SKIPPED = 77
PATIENCE = 60  # seconds
BIN = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
ALERTS = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "alerts.yml"
MINUTES = 90
STEADY = "{0}x%d" % MINUTES

# By alert: which series differ, their values by the minute ({0}: as it is), and after how many minutes it has fired.
BROKEN = {
    "RingwayNoMaster": [(r"ringway_master_connected\b", "0x90", 2)],
    "RingwayNobodyLeads": [(r"ringway_leads\b", "0x90", 2)],
    "RingwayJournalNotWritten": [(r"ringway_journal_ok\b", "0x90", 2)],
    "RingwayRecoveryHangs": [(r"ringway_group_frozen\b", "1x90", 3)],
    "RingwayOperationsStopped": [(r"ringway_ops_open\b", "1x90", 21), (r"ringway_ops_done_total\b", STEADY, 21)],
    "RingwayOperationsFail": [(r"ringway_ops_failed_total\b", "0+60x90", 11)],
    "RingwayPeersWait": [(r"ringway_group_pending\b", "1x90", 16)],
    "RingwayLanesBreak": [(r"ringway_lanes_lost_total\b", "0+6x90", 21)],
    "RingwayMemoryShort": [(r'ringway_memory_bytes{.*use="regions"', "999999999999x90", 6)],
    "RingwayCertificateEnds": [(r"ringway_certificate_days_left\b", "13x90", 1)],
    "RingwayInsecure": [(r"ringway_insecure\b", "1x90", 61)],
    "RingwayFault": [(r"ringway_ops_stuck_total\b", "0x10 1x80", 15)],
}


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError("it does not come true")
        time.sleep(0.05)
    return found


class AlertsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="ringway_alerts_", ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        tls = cls.folder / "tls"
        cls.certs("init", tls)
        cls.certs("issue", "m", "--role", "master", "--dir", tls)
        cls.certs("issue", "d", "--role", "daemon", "--dir", tls)
        socket = cls.folder / "d.sock"
        master = cls.start("ringway-master", "--listen", "127.0.0.1:0", "--journal", cls.folder / "journal.db", "--http",
                           "127.0.0.1:0", "--tls-dir", tls)
        daemon = cls.start("ringwayd", "--master", master("listening"), "--listen", "127.0.0.1:0", "--socket", socket,
                           "--name", "d", "--http", "127.0.0.1:0", "--tls-dir", tls)
        daemon("ready")
        cls.start("ringway-bench", "--socket", socket, "--group", "job", "--world", "1", "--bytes", "4K", "--iters", "1000000")
        cls.series = {**cls.scraped("master", master("http")), **cls.scraped("daemon", daemon("http"))}

    @classmethod
    def certs(cls, *command):
        subprocess.run([str(word) for word in (BIN / "ringwayctl", "certs", *command)], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def start(cls, program, *options):
        """Returns what finds the address on its log's line with an event."""
        log = cls.folder / f"{program}.log"
        with log.open("wb") as out:
            process = subprocess.Popen([str(word) for word in (BIN / program, *options)], stdout=out, stderr=out)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        return lambda event: until(lambda: re.search(rf" {event} .*?\baddress=(\S+)", log.read_text()))[1]

    @classmethod
    def scraped(cls, instance, address):
        """The samples at an address by their series, with the label that Prometheus would add, once there is a group's."""
        def scrape():
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as answer:
                return answer.read().decode()
        text = until(lambda: (now := scrape()) and 'group="job"' in now and now)
        samples = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            series, value = line.rsplit(" ", 1)
            name, _, labels = series.partition("{")
            labels = f"{{instance=\"{instance}\"" + ("," + labels if labels else "}")
            samples[name + labels] = value
        return samples

    def fires(self, minute, changes=()):
        """promtool's complaint; empty: exactly these alerts fire at this minute."""
        alert, rows = changes if changes else (None, [])
        values = {}
        for series, value in self.series.items():
            steady = f"{value}+60x{MINUTES}" if series.startswith("ringway_ops_done_total{") else f"{value}x{MINUTES}"
            values[series] = steady
        for pattern, shape, _ in rows:
            matching = [series for series in values if re.match(pattern, series)]
            self.assertTrue(matching, f"there is no series {pattern}")
            values.update({series: shape.format(self.series[series]) for series in matching})
        expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
        test = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [{
            "interval": "1m",
            "input_series": [{"series": series, "values": shape} for series, shape in values.items()],
            "promql_expr_test": [{"expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{minute}m",
                                  "exp_samples": expected}]}]}
        file = self.folder / "test.yml"
        file.write_text(json.dumps(test))
        run = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=PATIENCE)
        return "" if run.returncode == 0 else run.stdout + run.stderr

    def test_healthy_cluster_fires_nothing(self):
        for minute in (1, 15, 61, MINUTES):
            self.assertEqual(self.fires(minute), "")

    def test_each_alert_fires_for_what_it_is_for_and_alone(self):
        self.assertEqual(set(re.findall(r"alert: (\w+)", ALERTS.read_text())), set(BROKEN))
        for alert, rows in BROKEN.items():
            with self.subTest(alert):
                self.assertEqual(self.fires(max(minute for _, _, minute in rows), (alert, rows)), "")


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("skipped: there is no promtool (apt install prometheus)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
