"""A headless Chromium by the W3C WebDriver protocol: Debian's chromium and chromium-driver."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Browser:
    """One browser with one page."""

    def __init__(self, folder: Path) -> None:
        driver = shutil.which("chromedriver")
        assert driver is not None, "chromedriver is missing: apt-get install chromium-driver"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._base = f"http://127.0.0.1:{port}"
        self._log = (folder / "chromedriver.log").open("wb")
        self._process = subprocess.Popen(
            [driver, f"--port={port}"], stdout=self._log, stderr=subprocess.STDOUT
        )
        self._wait_for_driver()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,1400"]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{session['sessionId']}"

    def _wait_for_driver(self) -> None:
        deadline = time.monotonic() + 20
        while True:
            try:
                self._call("GET", "/status")
            except (urllib.error.URLError, ConnectionError):
                assert time.monotonic() < deadline, "chromedriver does not answer"
                time.sleep(0.05)
            else:
                return

    def open(self, url: str) -> None:
        """Load a page."""
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str) -> Any:
        """The value of a function body in the page."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.run(f"return document.querySelector({json.dumps(selector)}).textContent"))

    def errors(self) -> list[str]:
        """Messages of the console since the last call, from warnings up."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path: Path) -> None:
        """The window as PNG."""
        import base64

        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        """Poll; returns the seconds it took."""
        started = time.monotonic()
        while not condition():
            assert time.monotonic() - started < seconds, f"{what} did not happen in {seconds} s"
            time.sleep(0.02)
        return time.monotonic() - started

    def close(self) -> None:
        """End browser and driver."""
        try:
            self._call("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(10)
            self._log.close()

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.loads(response.read())["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.read()[:500]!r}") from error
