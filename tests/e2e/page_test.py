#!/usr/bin/env python3
"""The master's page in a browser, beside a real cluster in which a trainer is late, a daemon dies and a trainer joins.

page_test.py BIN: the folder of the programs. Skipped (77) without Chromium. RINGWAY_SCREENSHOTS=DIR: pictures for the
documentation go there.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from browser import PATIENCE, Browser, find_chromium

SKIPPED = 77
BIN = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None


class Program:
    """A process whose output is in a file; killed with the test."""

    def __init__(self, directory, label, *argv):
        self.log = directory / f"{label}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(word) for word in argv], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)

    def logged(self, event, key):
        """The value of `key` on the first line with this event, once there is one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(rf" {event} .*?\b{key}=(\S+)", self.log.read_text(errors="replace"))
            if found:
                return found[1]
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text(errors="replace")
            time.sleep(0.02)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="ringway_page_", ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.directory = pathlib.Path(cls.temporary.name)
        prices = cls.directory / "prices.toml"
        prices.write_text('currency = "USD"\nrest = 0.05\n[virginia]\nfrankfurt = 0.09\n')
        cls.master = cls.start("master", BIN / "ringway-master", "--listen", "127.0.0.1:0", "--journal", "none",
                               "--price", prices, "--http", "127.0.0.1:0", "--heartbeat-ms", "100", "--detect-ms", "2000")
        cls.page = "http://" + cls.master.logged("http", "address")
        cls.daemons = [cls.start_daemon(i) for i in range(4)]
        cls.trainers = [cls.start_trainer(i, 4) for i in range(4)]
        cls.browser = Browser(find_chromium(), cls.directory / "profile")
        cls.addClassCleanup(cls.browser.close)
        cls.browser.resize(1080, 900)
        cls.browser.call("Page.navigate", url=cls.page + "/")

    @classmethod
    def start(cls, label, *argv):
        program = Program(cls.directory, label, *argv)
        cls.addClassCleanup(program.kill)
        return program

    @classmethod
    def start_daemon(cls, index):
        daemon = cls.start(f"d{index}", BIN / "ringwayd", "--master", cls.master.logged("listening", "address"),
                           "--listen", "127.0.0.1:0", "--socket", cls.directory / f"d{index}.sock", "--name",
                           f"d{index}", "--site", ("frankfurt", "virginia")[index % 2])
        daemon.logged("ready", "socket")
        return daemon

    @classmethod
    def start_trainer(cls, index, world):
        return cls.start(f"t{time.monotonic_ns()}", BIN / "train_text", "--socket", cls.directory / f"d{index}.sock",
                         "--group", "demo", "--world", world, "--seconds", 600, "--batch", 4, "--reconnect", 0)

    def shows(self, element, text):
        return self.browser.until(f"document.querySelector({element!r})?.innerText.includes({text!r})")

    def picture(self, name):
        if folder := os.environ.get("RINGWAY_SCREENSHOTS"):
            height = self.browser.evaluate("Math.min(document.documentElement.scrollHeight, 1200)")
            self.browser.picture(pathlib.Path(folder) / name, height)

    def test_1_healthy_group_is_shown_whole(self):
        self.shows("#state", "world of 4")
        self.browser.until("document.querySelectorAll('#ring .node').length === 4")
        self.browser.until("document.querySelectorAll('#paths tbody td').length === 16")
        self.browser.until("[...document.querySelectorAll('#sites caption')].map(c => c.innerText).sort().join() === "
                           "'site frankfurt,site virginia'")
        self.browser.until("parseFloat(document.querySelector('#sites tbody tr').cells[1].innerText) > 0")
        self.shows("#events", "4 peers")
        self.browser.until("document.querySelector('#ring').getAttribute('aria-label').startsWith('ring of 4: ')")

    def test_1_traffic_between_sites_has_its_cost(self):
        rows = "[...document.querySelectorAll('#pairs tr')].map(row => [...row.cells].map(cell => cell.innerText))"
        self.browser.until(f"(() => {{ const rows = {rows}; return ['frankfurt,virginia', 'virginia,frankfurt'].every("
                           "way => rows.some(([from, to, , cost]) => from + ',' + to === way && / USD$/.test(cost) && "
                           "parseFloat(cost) > 0)); })()")
        self.browser.until("/[1-9].* USD in the last hour, .*[1-9].* USD an operation/.test("
                           "document.querySelector('#cost').innerText)")
        self.picture("page-traffic.png")

    def test_2_trainer_that_others_wait_for_is_marked(self):
        self.trainers[2].process.send_signal(signal.SIGSTOP)
        try:
            self.shows("#hurts", "its trainer has not submitted")
            self.browser.until("document.querySelector('#sites tr.late')?.dataset.name.startsWith('d2-')")
            self.browser.until("document.querySelectorAll('#ring .node.late').length === 1")
            self.picture("page.png")
        finally:
            self.trainers[2].process.send_signal(signal.SIGCONT)
        self.browser.until("!document.querySelector('#hurts').innerText.includes('has not submitted')")

    def test_3_death_and_join_are_seen(self):
        self.daemons[3].kill()
        self.shows("#state", "world of 3")
        self.browser.until("[...document.querySelectorAll('#events li.bad')].some(e => "
                           "e.innerText.includes('dropped') && e.innerText.includes('lost contact with it'))")
        self.browser.until("document.querySelectorAll('#hour .event.bad').length > 0")
        self.picture("page-lost.png")
        self.start_trainer(0, 1)
        self.shows("#state", "world of 4")
        self.shows("#events", "is in force: 4 peers")

    def test_4_keys_open_a_card_and_come_back(self):
        # The heading's link, the group, pause, then the first rank.
        self.browser.evaluate("document.activeElement.blur()")
        for _ in range(12):
            self.browser.press("Tab", 9)
            if self.browser.evaluate("document.activeElement.className === 'name'"):
                break
        name = self.browser.until("document.activeElement.className === 'name' && document.activeElement.innerText")
        self.browser.press("Enter", 13, "\r")
        self.browser.until("document.querySelector('#card').open")
        self.shows("#card-head", name.split()[1])
        self.shows("#facts", "MB sent")
        self.browser.press("Escape", 27)
        self.browser.until("!document.querySelector('#card').open")
        self.assertEqual(self.browser.evaluate("document.activeElement.innerText"), name)
        self.browser.evaluate("document.querySelector('input[value=rate_mbit]').click()")
        self.browser.until("document.querySelector('#paths').innerText.length > 0")

    def test_5_screen_readers_hear_names_roles_and_tables(self):
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = {}
        for node in nodes:
            if not node.get("ignored"):
                roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
        self.assertIn("What hurts", roles["heading"])
        self.assertTrue(all(roles["button"]), roles["button"])
        self.assertTrue(all(roles["radio"]) and len(roles["radio"]) == 4, roles["radio"])
        self.assertTrue(any(name.startswith("Group") for name in roles.get("combobox", [])), roles.get("combobox"))
        self.assertIn("status", roles)
        images = roles.get("image", []) + roles.get("img", [])
        self.assertTrue(any(name.startswith("ring of 4") for name in images), images)
        self.assertGreaterEqual(len(roles.get("rowheader", [])), 4)
        self.assertGreaterEqual(len(roles.get("columnheader", [])), 7)

    def test_6_phone_and_both_schemes_are_readable(self):
        contrast = """(() => {
          const style = getComputedStyle(document.documentElement);
          const light = (name) => {
            const probe = document.body.appendChild(document.createElement('i'));
            probe.style.color = style.getPropertyValue(name);
            const [r, g, b] = getComputedStyle(probe).color.match(/[0-9.]+/g).map(Number).map((v) =>
              v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
            probe.remove();
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          return Math.min(...['--ink', '--soft', '--good', '--bad', '--warn', '--accent'].map((name) => {
            const [a, b] = [light(name), light('--panel')];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          }));
        })()"""
        grounds = []
        for scheme in ("light", "dark"):
            self.browser.colours(scheme)
            grounds.append(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
            self.assertGreaterEqual(self.browser.evaluate(contrast), 4.5, scheme)
        self.assertNotEqual(*grounds)
        self.browser.resize(390, 844, mobile=True)
        self.browser.until("innerWidth === 390")
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390)
        self.picture("page-phone.png")
        self.browser.resize(1080, 900)
        self.browser.colours("light")

    def test_7_nothing_but_reading_from_the_master_itself(self):
        self.assertEqual(self.browser.complaints, [])
        outside = [url for method, url in self.browser.requests
                   if method != "GET" or not url.startswith((self.page, "about:", "data:"))]
        self.assertEqual(outside, [])
        for path in ("/", "/live.json", "/metrics"):
            request = urllib.request.Request(self.page + path, data=b"x", method="POST")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=PATIENCE)
            self.assertEqual(refused.exception.code, 405)
            refused.exception.close()

    def test_8_page_says_that_its_master_is_away(self):
        self.master.kill()
        self.shows("#state", "the master does not answer")


if __name__ == "__main__":
    if find_chromium() is None:
        print("skipped: there is no chromium (apt install chromium, or set RINGWAY_CHROMIUM)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
