"""The page of a simulated run in a real browser."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import Options
from simulator.campaign.page import page_of
from simulator.campaign.recording import Recording
from simulator.campaign.run import run_seed
from tests.browser.webdriver import Browser

pytestmark = pytest.mark.browser
OPTIONS = Options(
    node_count=3, observer_count=1, duration_us=20_000_000, write_count=60, faults=("kill", "clog")
)


def page(tmp_path: Path, *, broken: bool) -> Path:
    recording = Recording()
    outcome = run_seed(11, OPTIONS, recording=recording)
    assert outcome.invariant is None, outcome.text
    if broken:
        text = "I7: node 2: it leads <b>epoch 3</b> without </script> what is committed"
        outcome = replace(outcome, invariant="I7", text=text)
    path = tmp_path / "run.html"
    content = page_of(outcome, recording, "0123abc", "kraftline sim --seed 0xb")
    path.write_text(content, encoding="utf-8")
    assert "http://" not in content
    assert "https://" not in content
    return path


def painted(browser: Browser) -> int:
    """Number of pixels of the chart that are not empty."""
    script = """const c = document.querySelector('#canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 3; i < d.length; i += 4) { if (d[i]) { n++; } } return n;"""
    return int(browser.run(script))


def test_a_person_reads_what_happened_and_zooms_in(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, broken=False).as_uri())
    assert browser.text("#verdict") == "all invariants held"
    assert "election timeout ms" in browser.text("#settings")
    assert "leader elected" in browser.text("#marks")
    assert "clog" in browser.text("#faults")
    assert painted(browser) > 10_000
    whole = browser.text("#window")
    assert "zoom in to see them" in whole
    for _ in range(7):
        browser.run("document.querySelector('#in').click()")
    assert browser.text("#window") != whole
    assert "zoom in" not in browser.text("#window")
    browser.run("document.querySelector('#all').click()")
    assert browser.text("#window") == whole
    browser.run("document.querySelector('#faults tr[data-at]').click()")
    assert browser.text("#window") != whole
    browser.screenshot(tmp_path / "page.png")
    assert browser.errors() == []


def test_a_broken_invariant_is_shown_as_text_and_found_by_a_click(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(page(tmp_path, broken=True).as_uri())
    assert "<b>epoch 3</b> without </script>" in browser.text("#verdict")
    whole = browser.text("#window")
    assert browser.run("return document.querySelector('#violation').hidden") is False
    browser.run("document.querySelector('#violation').click()")
    assert browser.text("#window") != whole
    assert browser.errors() == []


def test_messages_have_kinds_and_clients_a_lane(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, broken=False).as_uri())
    legend = browser.text("#legend")
    assert "votes and new leaders" in legend
    assert "operation ok" in legend
    kinds = browser.run("return [...new Set(data.messages.map((m) => m[5]))]")
    assert {"Vote", "Fetch", "BeginQuorumEpoch", "CreateTopics", "ApiVersions"} <= set(kinds)
    assert browser.run("return data.operations.length") > 60
    script = """setView(0, 60000);
        const [x0, y0, x1, y1] = lines[3], r = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new PointerEvent('pointermove', {
            clientX: r.left + (x0 + x1) / 2, clientY: r.top + (y0 + y1) / 2}));
        return tip.hidden ? '' : tip.textContent;"""
    assert " bytes\nfrom " in browser.run(script)
    script = """setView(0, end); draw();
        const box = boxes.findLast((b) => b[4](0).startsWith('client '));
        return box[4](0);"""
    assert " at node " in browser.run(script)
    browser.screenshot(tmp_path / "whole.png")
    assert browser.errors() == []
