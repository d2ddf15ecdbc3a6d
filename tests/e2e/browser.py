"""Chromium without a window, driven over pipes (the DevTools protocol): no library, no port. Every wait is bounded."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

PATIENCE = 60  # seconds: far beyond what anything here takes


def find_chromium():
    """Its path; None where it is not installed."""
    return os.environ.get("RINGWAY_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page of one browser. `complaints` are errors of its scripts, and what its rules for contents refused."""

    def __init__(self, chromium, directory):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def dup():
            # 3 and 4 may be among these.
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        log = (pathlib.Path(directory).parent / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            [chromium, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
             "--disable-extensions", "--hide-scrollbars", f"--user-data-dir={directory}", "about:blank"],
            preexec_fn=dup, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=log)
        log.close()
        os.close(to_read)
        os.close(to_write)
        self._bytes = b""
        self._calls = 0
        self._session = None
        self.complaints = []
        self.requests = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page", "Accessibility"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _receive(self, deadline):
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            got = os.read(self._from, 1 << 16)
            assert got, "the browser has ended"
            self._bytes += got
        message, _, self._bytes = self._bytes.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append((params["request"]["method"], params["request"]["url"]))

    def call(self, method, **params):
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._calls:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def until(self, expression):
        """The value of the expression, once that is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            shown = self.evaluate("document.body.innerText")
            assert time.monotonic() < deadline, f"{expression} does not come true: {shown}"
            time.sleep(0.05)
        return value

    def press(self, key, code=0, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path, height):
        """Of the page from its top, as a PNG."""
        width = self.evaluate("innerWidth")
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                          clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        pathlib.Path(path).write_bytes(base64.b64decode(taken["data"]))
