"""Page of findings."""

from jepsen.findings_page import FINDINGS_FILE, page_of, written


def test_names_are_linked_and_everything_is_escaped():
    findings = [{"kind": "G1c", "text": "T1 -wr <a>: 1-> T12, of T1's and T3"}]
    page = page_of("a & b", findings, {"T1": "ok <b>", "T12": "fail"})
    assert "<h1>a &amp; b</h1>" in page
    first, second = '<a href="#T1">T1</a>', '<a href="#T12">T12</a>'
    assert f"<td>G1c</td><td>{first} -wr &lt;a&gt;: 1-&gt; {second}, of {first}" in page
    assert page.count("T3") == 1, "nothing is known of it"
    assert '<tr><td><span id="T1">T1</span></td><td>ok &lt;b&gt;</td></tr>' in page


def test_without_names_there_is_one_table():
    page = page_of("groups", [{"kind": "skipped", "text": "x"}], {})
    assert page.count("<table>") == 1


def test_a_page_that_cannot_be_written_is_told(tmp_path):
    assert written(tmp_path, "page") == f"see {FINDINGS_FILE}"
    assert (tmp_path / FINDINGS_FILE).read_text() == "page"
    assert written(tmp_path / "none", "page").endswith("written: No such file or directory")
