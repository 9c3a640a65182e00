"""Parts of a job's report: one HTML page that embeds its pictures and needs no network."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pipeline.pictures import Picture  # which loads matplotlib

PAGE_NAME: Final = "index.html"
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1150px;margin:2rem auto;padding:0 1rem;color:#222}
h1{margin-bottom:.2rem} h2{margin-top:2.4rem;border-bottom:1px solid #ddd} img{max-width:100%}
.facts{display:flex;flex-wrap:wrap;gap:.7rem;margin:1rem 0;padding:0}
.facts li{list-style:none;background:#f4f5f7;border-radius:6px;padding:.5rem .9rem}
.facts b{display:block;font-size:1.4rem} .bad b{color:#c0201f} p.note{color:#555;margin:.3rem 0}
table{border-collapse:collapse;font-size:.87rem;width:100%}
td,th{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #eee;white-space:nowrap}
td:nth-child(7){white-space:normal}
th{position:sticky;top:0;background:#fff} .scroll{max-height:26rem;
overflow:auto;border:1px solid #eee} .unclean td,.bad td{background:#fde8e8}
"""


def page(title: str, heading: str, note: str, body: str) -> str:
    """A whole page; `body` is HTML, the others are text."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(heading)}</h1><p class=note>{escape(note)}</p>{body}"
        "</body></html>"
    )


def tiles(shown: Iterable[tuple[str, str, bool]]) -> str:
    """A row of figures: label, value, and whether it is bad."""
    items = "".join(
        f'<li class="{"bad" if bad else ""}"><b>{escape(value)}</b>{escape(label)}</li>'
        for label, value, bad in shown
    )
    return f"<ul class=facts>{items}</ul>"


def section(picture: "Picture", folder: Path, missing: str) -> str:
    """A picture with its text and its files; `missing` says why it may be empty."""
    image = b64encode((folder / f"{picture.name}.png").read_bytes()).decode()
    note = " There is nothing of it in this input." if picture.is_empty and not missing else ""
    note += f" {missing}" if missing else ""
    return (
        f'<section id="{picture.name}"><h2>{escape(picture.title)}</h2>'
        f"<p>{escape(picture.text + note)}</p>"
        f'<img alt="{escape(picture.title)}" src="data:image/png;base64,{image}">'
        f'<p class=note>The figures: <a href="{picture.name}.csv">{picture.name}.csv</a>, the'
        f' picture alone: <a href="{picture.name}.png">{picture.name}.png</a></p></section>'
    )


def scrolling_table(
    name: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]
) -> str:
    """A table that scrolls: each row is its class (may be empty) and its cells, as text."""
    head = "".join(f"<th>{escape(column)}" for column in columns)
    body = "".join(
        f'<tr class="{style}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for style, cells in rows
    )
    return (
        f"<div class=scroll><table id={name}><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def when(moment: datetime | None) -> str:
    """A time for people."""
    if moment is None:
        return "unknown"
    return moment.astimezone(UTC).strftime("%a %Y-%m-%d %H:%M:%S")
