"""Validation of topic names, with Kafka's error texts.

Source: apache/kafka: clients/.../common/internals/Topic.java (detectInvalidTopic).
"""

import re
from typing import Final

TOPIC_NAME_LENGTH_MAX: Final = 249
"""Limit in UTF-16 units, as Java counts: 255 of a directory name less `-` and a partition."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def illegal_topic_name(name: str) -> str | None:
    """Kafka's reason why no topic can have this name, None if one can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name.encode("utf-16-le", "surrogatepass")) > 2 * TOPIC_NAME_LENGTH_MAX:
        return (
            f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None
