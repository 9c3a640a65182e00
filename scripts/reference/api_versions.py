"""docs/reference/api-versions.md: the APIs that listeners advertise, as ApiVersions answers."""

from collections.abc import Mapping
from typing import Final

from scripts.reference.markdown import code, page, table
from wire.api_table import SCHEMAS, Api, ListenerKind

Offered = Mapping[ListenerKind, Mapping[int, Api]]
COLUMNS: Final = ("key", "API", "brokers", "controllers")
NOT_SERVED: Final = "-"


def text(offered: Offered) -> str:
    """The page.

    Args:
        offered: of a node that is broker and controller, by kind of listener and API key.
    """
    tables = [offered[kind] for kind in (ListenerKind.BROKER, ListenerKind.CONTROLLER)]
    served = sorted({key for table_of_kind in tables for key in table_of_kind})
    left_out = [SCHEMAS[key].name for key in sorted(SCHEMAS.keys() - set(served))]
    return page(
        "API versions",
        "The versions that a node advertises by ApiVersions at its listeners: those of Kafka 4.3 "
        "for each API that it serves. An API without a range is not listed there, so that clients "
        "never ask for it.",
        table(
            COLUMNS,
            (
                (str(key), SCHEMAS[key].name, *(_range(each.get(key)) for each in tables))
                for key in served
            ),
        ),
        "## Not served",
        "Known, and at no listener: " + ", ".join(map(code, left_out)) + ".",
    )


def _range(api: Api | None) -> str:
    if api is None:
        return NOT_SERVED
    if api.min_version == api.max_version:
        return str(api.min_version)
    return f"{api.min_version} to {api.max_version}"
