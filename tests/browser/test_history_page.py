"""The page of a metadata history in a real browser."""

from pathlib import Path

import pytest

from pipeline.jobs.history.page import write_page
from tests.browser.webdriver import Browser
from tests.pipeline.test_history import finished

pytestmark = pytest.mark.browser
LOGS = Path(__file__).parent.parent / "golden" / "pipeline" / "broker-101-compacted-1"


def test_every_picture_is_shown_and_fits(tmp_path: Path, browser: Browser) -> None:
    write_page(None, finished(tmp_path / "history"), str(tmp_path / "page"), [str(LOGS)])
    browser.open(f"file://{tmp_path}/page/index.html")
    assert browser.run("return [...document.images].every(i => i.naturalWidth > 400)")
    assert browser.run("return document.images.length") == 5
    fits = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert browser.run(fits)
    assert "orders-3" in browser.text("#changes")
    assert "the old leader was fenced or gone" in browser.text("#changes")
    assert browser.errors() == []
