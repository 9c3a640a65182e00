"""Hook of MkDocs: a folder in the navigation stands for all pages in it, what is left is "More".

So a page that is added to docs/ is in the site without a change of mkdocs.yml.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

INDEX: Final = "README.md"
REST: Final = "More"


def on_config(config: Any) -> Any:
    """Return the configuration with the pages of each folder in the navigation, and the rest."""
    docs = Path(config["docs_dir"])
    config["nav"] = [expanded(entry, docs) for entry in config["nav"]]
    named = set(pages(config["nav"]))
    found = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    rest = [page for page in found if page not in named]
    if rest:
        config["nav"].append({REST: rest})
    return config


def expanded(entry: Any, docs: Path) -> Any:
    """An entry of the navigation in which each folder is the list of its pages, its index first.

    Args:
        entry: the path of a page or a folder (`name/`), a list of entries, or titles with entries.
        docs: the folder of all pages.
    """
    if isinstance(entry, dict):
        return {title: expanded(value, docs) for title, value in entry.items()}
    if isinstance(entry, list):
        return [expanded(value, docs) for value in entry]
    if not entry.endswith("/"):
        return entry
    names = sorted(path.name for path in (docs / entry).glob("*.md"))
    names.sort(key=lambda name: name != INDEX)
    return [f"{entry}{name}" for name in names]


def pages(entry: Any) -> Iterator[str]:
    """Paths of all pages in an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from pages(inner)
