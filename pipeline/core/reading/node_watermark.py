"""High watermark of the metadata log, as running nodes of kraftline report it.

The source is `GET /v1/quorum` of the inspection API. It is never too high: the node has all records
below it.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from pipeline.core.errors import BadInputError

TIMEOUT_SECONDS: Final = 5.0
_ANSWER_BYTES_MAX: Final = 4 << 20


def ask_nodes(urls: Sequence[str], cluster_id: str | None = None) -> dict[int, int]:
    """Node id -> its high watermark (exclusive); a node without one is left out.

    Args:
        urls: inspection APIs of one or more nodes, like http://localhost:11092.
        cluster_id: cluster of the files, if known: a node of another cluster is refused.

    Raises:
        BadInputError: a node cannot be reached, is of another cluster, or has another API there.
    """
    found: dict[int, int] = {}
    for url in urls:
        answer = _get(url)
        try:
            node_id, watermark = int(answer["node_id"]), answer["high_watermark"]
            theirs = str(answer["cluster_id"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadInputError(f"{url}: not the inspection API of a node: {error!r}") from error
        if cluster_id is not None and theirs != cluster_id:
            raise BadInputError(f"{url}: a node of cluster {theirs}, the files are of {cluster_id}")
        if watermark is not None:
            found[node_id] = int(watermark)
    return found


def _get(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise BadInputError(f"{url!r} is no address of an inspection API: http://HOST:PORT")
    address = url.rstrip("/") + "/v1/quorum"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            found = json.loads(answer.read(_ANSWER_BYTES_MAX))
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise BadInputError(f"{address}: no answer: {reason}") from error
    if not isinstance(found, dict):
        raise BadInputError(f"{url}: not the inspection API of a node: {type(found).__name__}")
    return found
