"""Page about what is wrong with a run of txn or group: one file that fetches nothing."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

FINDINGS_FILE: Final = "findings.html"
_NAME: Final = re.compile(r"\bT\d+\b")
_STYLE: Final = (
    "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}"
    "td,th{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}"
    "td{font-family:monospace}tr:target td{background:#ffd}"
)


def page_of(title: str, findings: Iterable[Mapping[str, str]], named: Mapping[str, str]) -> str:
    """Draw the page.

    Args:
        title: Name of the check with its reason.
        findings: Objects with `kind` and `text`.
        named: What the texts name, described; `T5` becomes a link to its row.
    """
    rows = [(finding["kind"], _linked(finding["text"], named)) for finding in findings]
    described = [
        (f'<span id="{escape(name)}">{escape(name)}</span>', escape(text))
        for name, text in named.items()
    ]
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>"
        + _table(("finding", "evidence"), [(escape(kind), text) for kind, text in rows])
        + _table(("name", "what"), described)
        + "</html>\n"
    )


def written(folder: Path, page: str) -> str:
    """Write the page; say where it is, or why it cannot be written."""
    try:
        (folder / FINDINGS_FILE).write_text(page, encoding="utf-8")
    except OSError as error:
        return f"{FINDINGS_FILE} cannot be written: {error.strerror}"
    return f"see {FINDINGS_FILE}"


def _linked(text: str, named: Mapping[str, str]) -> str:
    def link(found: re.Match[str]) -> str:
        name = found.group()
        return f'<a href="#{name}">{name}</a>' if name in named else name

    return _NAME.sub(link, escape(text))


def _table(heads: tuple[str, str], rows: list[tuple[Any, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(f"<tr><td>{one}</td><td>{other}</td></tr>" for one, other in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
