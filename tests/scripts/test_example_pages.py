"""Code that the page of the examples shows is the code of the examples."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


def test_each_block_is_a_part_of_a_file_that_its_section_names() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    shown = 0
    for section in page.split("\n## ")[1:]:
        linked = re.findall(r"\]\(([a-z_]+/[a-z_]+\.(?:py|ipynb))\)", section)
        sources = [source(EXAMPLES / path) for path in linked]
        for block in re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
            assert any(block in text for text in sources), block
            shown += 1
    assert shown > 5


def source(path: Path) -> str:
    """Text of a file; of a notebook that of its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    return "".join("".join(cell["source"]) + "\n" for cell in json.loads(text)["cells"])


def test_each_example_is_in_the_table() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert set(re.findall(r"^\| \[([a-z_]+)\]\(#", page, re.MULTILINE)) == folders


def test_each_example_is_run() -> None:
    source = (ROOT / "tests" / "interop" / "test_examples.py").read_text(encoding="utf-8")
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert {name for name in folders if f'"{name}"' not in source} == set()
