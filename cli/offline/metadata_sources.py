"""Sources of past metadata for `at` and `diff`: a folder of a node, or a node's inspection API."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeVar

import msgspec

from cli.arguments import INT64_MAX, LINE_CHARACTERS, UsageError, shortened

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from cli.arguments import Parser
    from metadata.image import Image

LOCAL: Final = "local"
LINEARIZABLE: Final = "linearizable"
TIMEOUT_S: Final = 30
PAGE: Final = 1000
PAGES_MAX: Final = 10_000
PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
ALL_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Limit for all pages of an answer together."""
PROBLEM_BYTES_MAX: Final = 64 * 1024
Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Fetch = Callable[[str, int], bytes]


class TopicsPage(msgspec.Struct, frozen=True):
    """A page of topics by name."""

    metadata_offset: Count
    topics: list[dict[str, Any]]
    topic_count: Count
    next_after: str | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Topics of the page."""
        return self.topics

    def with_rows(self, rows: list[dict[str, Any]]) -> Self:
        """The last page with the rows of all pages."""
        return msgspec.structs.replace(self, topics=rows)


class ChangeRow(msgspec.Struct, frozen=True):
    """An added, removed or changed object; `fields` names the differing fields of a changed one."""

    kind: str
    key: str
    change: Literal["added", "removed", "changed"]
    fields: list[str]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ChangesPage(msgspec.Struct, frozen=True):
    """A page of differences between two offsets."""

    from_offset: Count
    to_offset: Count
    change_count: Count
    changes: list[ChangeRow]
    next_after: Count | None = None

    @property
    def rows(self) -> list[ChangeRow]:
        """Changes of the page."""
        return self.changes

    def with_rows(self, rows: list[ChangeRow]) -> Self:
        """The last page with the rows of all pages."""
        return msgspec.structs.replace(self, changes=rows)


class Problem(msgspec.Struct, frozen=True):
    """Refusal of a node (RFC 9457)."""

    detail: str | None = None
    title: str | None = None


Page = TypeVar("Page", TopicsPage, ChangesPage)


def is_node(source: str) -> bool:
    """Return True if the source is the address of a node's inspection API."""
    return source.startswith(("http://", "https://"))


def add_consistency(parser: "Parser") -> None:
    """Declare `--consistency`."""
    parser.add_argument(
        "--consistency",
        choices=(LOCAL, LINEARIZABLE),
        default=LOCAL,
        help="of a node: local, its own metadata (the default); linearizable, the leader's with "
        "all that was acknowledged before",
    )


def refuse_folder(consistency: str) -> None:
    """Refuse a linearizable read of a folder.

    Raises:
        UsageError: it is one.
    """
    if consistency != LOCAL:
        raise UsageError(f"--consistency {consistency} is for http://HOST:PORT: a folder is local")


def consistent(url: str, consistency: str) -> str:
    """URL with the consistency, unless it is the default; the node redirects to the leader."""
    if consistency == LOCAL:
        return url
    return f"{url}{'&' if '?' in url else '?'}consistency={consistency}"


def parse_offset(text: str) -> int | None:
    """Offset from a text, None for `end`.

    Raises:
        UsageError: the text is neither.
    """
    if text == "end":
        return None
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    if not is_number or int(text) > INT64_MAX:
        raise UsageError(f"'{text[:80]}' is not an offset: a number from 0, or end")
    return int(text)


def folder_image(source: str, offset: int | None) -> "Image":
    """The image of a folder at an offset, None for its end.

    Raises:
        UsageError: the log does not contain the offset.
    """
    from cli.offline.offline_log import OfflineLog  # noqa: PLC0415  # slow

    log = OfflineLog(Path(source))
    return log.image_at(log.end_offset() if offset is None else offset)


def fetched(url: str, bytes_max: int) -> bytes:
    """Fetch the body of a node's answer.

    Raises:
        UsageError: no connection, a refusal (with the node's text), or more than `bytes_max`.
    """
    import http.client  # noqa: PLC0415  # help and folders must not wait for HTTP and TLS
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    try:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            content = bytes(answer.read(bytes_max + 1))
    except urllib.error.HTTPError as error:
        raise UsageError(f"{url}: {_problem(error)}") from error
    except urllib.error.URLError as error:
        raise UsageError(f"{url}: {error.reason}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UsageError(f"{url}: {error}") from error
    if len(content) > bytes_max:
        raise UsageError(f"{url}: the answer has more than {bytes_max} bytes")
    return content


def _problem(error: "HTTPError") -> str:
    from http.client import HTTPException  # noqa: PLC0415  # as above

    try:
        with error:
            problem = msgspec.json.decode(error.read(PROBLEM_BYTES_MAX), type=Problem)
    except (ValueError, RecursionError, OSError, HTTPException):
        problem = Problem()
    text = problem.detail or problem.title or f"HTTP status {error.code}"
    return shortened(text, LINE_CHARACTERS).replace("\n", "\\n")


def one_page(url: str, kind: type[Page], fetch: Fetch = fetched) -> Page:
    """Fetch an answer of one page.

    Raises:
        UsageError: as `fetched`, or the answer is not a node's.
    """
    return _page(url, fetch(url, PAGE_BYTES_MAX), kind)


def all_pages(url: str, kind: type[Page], fetch: Fetch = fetched) -> Page:
    """Fetch an answer with the rows of all its pages; its `next_after` is None.

    Args:
        url: Without `limit` and `after`.
        kind: Type of every page.
        fetch: Function from a URL and a limit of bytes to the body.

    Raises:
        UsageError: as `one_page`, or the pages do not end.
    """
    from urllib.parse import quote  # noqa: PLC0415  # help must not wait for it

    start = f"{url}{'&' if '?' in url else '?'}limit={PAGE}"
    after: int | str | None = None
    bytes_left = ALL_BYTES_MAX
    rows: list[Any] = []
    for _ in range(PAGES_MAX):
        asked = start if after is None else f"{start}&after={quote(str(after), safe='')}"
        content = fetch(asked, min(PAGE_BYTES_MAX, bytes_left))
        bytes_left -= len(content)
        page = _page(asked, content, kind)
        rows += page.rows
        if page.next_after is None:
            return page.with_rows(rows)
        if after is not None and not _is_behind(page.next_after, after):
            raise UsageError(f"{asked}: the page goes on behind '{page.next_after}', not further")
        after = page.next_after
    raise UsageError(f"{url}: more than {PAGES_MAX} pages")


def _page(url: str, content: bytes, kind: type[Page]) -> Page:
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{url}: {error}, so it is not a node's") from error


def _is_behind(mark: int | str, before: int | str) -> bool:
    """Return True if a page's mark follows the previous one's; names are sorted."""
    if isinstance(mark, int) and isinstance(before, int):
        return mark > before
    return str(mark) > str(before)
