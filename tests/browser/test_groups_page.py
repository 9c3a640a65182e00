"""The page of groups in a real browser."""

from pathlib import Path

import pytest

from pipeline.cli import main
from tests.browser.webdriver import Browser
from tests.pipeline.test_groups_job import NOW, write_cluster

pytestmark = pytest.mark.browser


def test_the_picture_and_the_tables_are_shown_and_fit(tmp_path: Path, browser: Browser) -> None:
    root, out, page = write_cluster(tmp_path / "n1"), tmp_path / "out", tmp_path / "page"
    command = ["groups", "--input", str(root), "--output", str(out), "--now", NOW]
    assert main([*command, "--report", str(page)]) == 0
    browser.open(f"file://{page}/index.html")
    assert browser.run("return [...document.images].every(i => i.naturalWidth > 400)")
    assert browser.run("return document.images.length") == 1
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert "Stable" in browser.text("#groups")
    assert "one" in browser.text("#rebalances")
    assert browser.errors() == []
