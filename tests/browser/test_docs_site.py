"""The documentation site in Chromium: built strictly, readable, searchable, without a network."""

import functools
import http.server
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.webdriver import Browser
from tests.peers import is_missing

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
FITS = """
return [document.documentElement, ...document.querySelectorAll(".md-typeset__scrollwrap, pre")]
    .filter(element => element.scrollWidth > element.clientWidth + 1)
    .map(element => element.textContent.trim().slice(0, 60))
"""
FOREIGN = """
return performance.getEntriesByType("resource").map(entry => entry.name)
    .filter(name => !name.startsWith(location.origin) && !name.startsWith("blob:"))
"""
SEARCH = """
const field = document.querySelector("input.md-search__input")
field.focus()
field.value = "broker.session.timeout.ms"
field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}))
field.dispatchEvent(new Event("input", {bubbles: true}))
"""
FOUND = "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href).join()"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built as `scripts/test --all` builds it."""
    if importlib.util.find_spec("material") is None:
        is_missing("the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


ROWS = {
    "index": 5,
    "tutorial": 0,
    "testing": 5,
    "running": 50,
    "cli": 50,
    "docker": 5,
    "compatibility": 15,
    "examples/index": 5,
    "reference/configs": 150,
    "reference/commands": 300,
    "reference/api-versions": 60,
    "reference/metrics": 150,
    "decisions/0028-documentation-site": 0,
}
"""Pages, with a number of rows that their tables have at least."""


def test_pages_fit_and_have_their_tables(site: str, browser: Browser) -> None:
    for page, rows in ROWS.items():
        browser.open(f"{site}/{page}.html")
        found = browser.run("return document.querySelectorAll('article td:first-child').length")
        assert found >= rows, page
        assert browser.run(FITS) == [], page
        assert "|---|" not in browser.text("article"), f"a table of {page} is none"
        assert browser.errors() == [], page
        assert browser.run(FOREIGN) == [], page


def test_a_key_is_found(site: str, browser: Browser) -> None:
    browser.open(f"{site}/index.html")
    browser.run(SEARCH)
    browser.wait(lambda: "reference/configs.html" in browser.run(FOUND), 20, "a result")
