"""Where `at` and `diff` get the past from: a folder of a node, or a node's inspection API."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli.arguments import INT64_MAX, UsageError

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from metadata.image import Image

TIMEOUT_S: Final = 30
PAGE: Final = 1000


def is_node(source: str) -> bool:
    """Whether the source is the address of a node's inspection API."""
    return source.startswith(("http://", "https://"))


def parse_offset(text: str) -> int | None:
    """A number, or None for `end`.

    Raises:
        UsageError: neither.
    """
    if text == "end":
        return None
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    if not is_number or int(text) > INT64_MAX:
        raise UsageError(f"'{text[:80]}' is not an offset: a number from 0, or end")
    return int(text)


def folder_image(source: str, offset: int | None) -> "Image":
    """The image of a folder at an offset, or at its end.

    Raises:
        UsageError: the folder does not reach it.
    """
    from cli.offline_log import OfflineLog  # noqa: PLC0415  # help must not wait for the codecs

    log = OfflineLog(Path(source))
    return log.image_at(log.end_offset() if offset is None else offset)


def get_json(url: str) -> Any:
    """What a node answers.

    Raises:
        UsageError: it cannot be reached, or refuses; the text is its own.
    """
    import http.client  # noqa: PLC0415  # help and folders must not wait for HTTP and TLS
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    try:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as error:
        raise UsageError(f"{url}: {_problem(error)}") from error
    except urllib.error.URLError as error:
        raise UsageError(f"{url}: {error.reason}") from error
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise UsageError(f"{url}: {error}") from error


def _problem(error: "HTTPError") -> str:
    try:
        problem = msgspec.json.decode(error.read())
        return str(problem.get("detail") or problem.get("title") or error.code)
    except (ValueError, RecursionError, AttributeError, OSError):
        return f"HTTP status {error.code}"


def get_object(url: str, field: str) -> dict[str, Any]:
    """What a node answers: an object that has the field.

    Raises:
        UsageError: as `get_json`, or it is somebody else's answer.
    """
    answer = get_json(url)
    if not isinstance(answer, dict) or field not in answer:
        raise UsageError(f"{url}: the answer has no {field}, so it is not a node's")
    return answer


def all_pages(url: str, rows: str) -> dict[str, Any]:
    """An answer with the rows of all its pages.

    Raises:
        UsageError: as `get_json`.
    """
    from urllib.parse import quote  # noqa: PLC0415  # help must not wait for it

    separator = "&" if "?" in url else "?"
    whole = get_object(f"{url}{separator}limit={PAGE}", rows)
    page = whole
    while page.get("next_after") is not None:
        after = quote(str(page["next_after"]), safe="")
        page = get_object(f"{url}{separator}limit={PAGE}&after={after}", rows)
        whole[rows] += page[rows]
    return whole
