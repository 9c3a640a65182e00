"""`kraftline at`: the metadata at an offset, of a folder or of a running node.

The image at offset N holds the records below N: the newest one is at the high watermark, offset 0
is empty. Exit code 0, or 1 when there is no image at the offset.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli.arguments import Parser, UsageError
from cli.offline.metadata_sources import (
    TopicsPage,
    add_consistency,
    all_pages,
    consistent,
    folder_image,
    is_node,
    one_page,
    parse_offset,
    refuse_folder,
)

if TYPE_CHECKING:
    from metadata.image import Image

WHAT: Final = (
    "topics",
    "brokers",
    "controllers",
    "features",
    "configs",
    "acls",
    "quotas",
    "scram",
)


def run(arguments: Sequence[str]) -> int:
    """Print the metadata and return the exit code."""
    parser = Parser("kraftline at", "The metadata as it was at an offset.")
    parser.add_argument("offset", help="records below it count; end for the last")
    parser.add_argument("what", choices=WHAT, help="what to show")
    parser.add_argument("source", help="a log directory, or http://HOST:PORT of a node")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_consistency(parser)
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(_shown(options))
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _shown(options: Namespace) -> str:
    offset = parse_offset(options.offset)
    if is_node(options.source):
        return _of_node(options, offset)
    refuse_folder(options.consistency)
    image = folder_image(options.source, offset)
    rows = rows_of(image, options.what)
    if options.json:
        answer = {"metadata_offset": image.provenance.end_offset, options.what: rows}
        return msgspec.json.encode(answer).decode() + "\n"
    if options.what == "topics":
        return "".join(topic_lines(row) for row in rows)
    return "".join(fields_line(msgspec.to_builtins(row)) for row in rows)


def _of_node(options: Namespace, offset: int | None) -> str:
    if options.what != "topics":
        raise UsageError("a node tells only topics of its past; name a folder for the rest")
    node, consistency = options.source.rstrip("/"), options.consistency
    if offset is None:
        newest = consistent(f"{node}/v1/topics?limit=1", consistency)
        offset = one_page(newest, TopicsPage).metadata_offset
    url = consistent(f"{node}/v1/metadata/at/{offset}/topics", consistency)
    answer = all_pages(url, TopicsPage)
    if options.json:
        return msgspec.json.encode(answer).decode() + "\n"
    return "".join(fields_line(row) for row in answer.topics)


def rows_of(image: "Image", what: str) -> list[Any]:
    """Rows of one kind, in a fixed order."""
    from inspection import views  # noqa: PLC0415  # help must not wait for it

    if what == "topics":
        topics = sorted(image.topics.values(), key=lambda topic: topic.name)
        return [views.topic_detail(image, topic) for topic in topics]
    if what == "configs":
        kinds = {number: name for name, number in views.CONFIG_TYPES.items()}
        return [
            {"type": kinds.get(kind, str(kind)), "name": name}
            | {"configs": views.shown_configs(kind, image.config(kind, name))}
            for kind, name in sorted(image.configs)
        ]
    make: dict[str, Callable[[Image], Sequence[Any]]] = {
        "brokers": views.broker_views,
        "controllers": views.controller_views,
        "features": views.feature_views,
        "acls": views.acl_views,
        "quotas": views.quota_views,
        "scram": views.scram_views,
    }
    return list(make[what](image))


def topic_lines(topic: Any) -> str:
    """A topic in the form of `topics --describe`."""
    from cli.admin import topic_description as description  # noqa: PLC0415  # needed here only
    from wire.ids import node_number  # noqa: PLC0415  # needed here only

    shown = description.TopicView(
        name=topic.name,
        topic_id=topic.topic_id,
        configs=topic.configs,
        partitions=tuple(
            description.PartitionView(
                index=partition.partition,
                leader=node_number(partition.leader),
                replicas=tuple(partition.replicas),
                isr=tuple(partition.isr),
                elr=tuple(partition.elr),
                last_known_elr=tuple(partition.last_known_elr),
                adding=tuple(partition.adding_replicas),
                removing=tuple(partition.removing_replicas),
            )
            for partition in topic.partitions
        ),
    )
    lines = [description.topic_line(shown)]
    lines += [description.partition_line(shown.name, partition) for partition in shown.partitions]
    return "".join(lines)


def fields_line(row: dict[str, Any]) -> str:
    """A row as `key=value` in one line; values as JSON where they are not plain."""
    return " ".join(f"{name}={_plain(value)}" for name, value in row.items()) + "\n"


def _plain(value: Any) -> str:
    if isinstance(value, str) and value and not any(c.isspace() for c in value):
        return value
    return msgspec.json.encode(value).decode()
