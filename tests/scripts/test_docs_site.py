"""The navigation of the documentation site: a folder stands for its pages, the rest is "More"."""

import re
from pathlib import Path
from typing import Any

from scripts.docs_site import expanded, on_config, pages

ROOT = Path(__file__).resolve().parents[2]


def made(folder: Path, *names: str, nav: list[Any]) -> list[Any]:
    """The navigation of a folder with these files."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# x\n")
    navigation: list[Any] = on_config({"nav": nav, "docs_dir": str(folder)})["nav"]
    return navigation


def test_a_folder_is_the_list_of_its_pages_the_index_first(tmp_path: Path) -> None:
    names = ["one.md", "index.md", "room/b.md", "room/README.md", "room/a.md", "room/c.toml"]
    nav = ["index.md", {"Title": ["one.md", {"Room": "room/"}]}]
    rooms = {"Room": ["room/README.md", "room/a.md", "room/b.md"]}
    assert made(tmp_path, *names, nav=nav) == ["index.md", {"Title": ["one.md", rooms]}]


def test_pages_that_are_nowhere_come_last(tmp_path: Path) -> None:
    nav = made(tmp_path, "index.md", "z.md", "a/b.md", nav=["index.md"])
    assert nav == ["index.md", {"More": ["a/b.md", "z.md"]}]


def entries() -> list[str]:
    """Paths and folders of the navigation in mkdocs.yml, which is flat enough for a pattern."""
    lines = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1].splitlines()
    titled = [re.fullmatch(r" +- (?:[^:]+: ?)?(\S*)", line) for line in lines if line.strip()]
    assert None not in titled
    return [match[1] for match in titled if match is not None and match[1]]


def test_each_page_of_the_navigation_is_there_once() -> None:
    found = list(pages([expanded(each, ROOT / "docs") for each in entries()]))
    assert len(found) == len(set(found)) > 50
    assert {page for page in found if not (ROOT / "docs" / page).exists()} == set()
