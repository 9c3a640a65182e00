"""Reasons why tests of suites do not pass: each that fails is named here, or the run fails."""

import enum
import re
from typing import Final

import msgspec


class Cause(enum.Enum):
    """Kinds of reasons."""

    SCOPE = "outside the scope"
    SUITE = "an assumption of the suite"
    KAFKA = "fails on Apache Kafka too"
    DEFECT = "a known defect of ours"


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why some tests do not pass."""

    tests: str
    """pytest's ids; `*` stands for any text."""
    cause: Cause
    reason: str
    always: bool = True
    """False: it also passes, depending on time."""


BROKER_0: Final = "asks for a broker with id 0; those of the fixture count from 1"
NO_SSL: Final = "SSL: listeners are PLAINTEXT"
NO_SASL: Final = "SASL: listeners are PLAINTEXT"

EXPLAINED: Final[dict[str, tuple[Explanation, ...]]] = {
    "aiokafka": (
        Explanation(tests="tests/test_sasl.py::*", cause=Cause.SCOPE, reason=NO_SASL),
        Explanation(tests="*::test_ssl_consume", cause=Cause.SCOPE, reason=NO_SSL),
        Explanation(tests="*::test_producer_ssl", cause=Cause.SCOPE, reason=NO_SSL),
        Explanation(tests="*::test_create_ssl_context", cause=Cause.SCOPE, reason=NO_SSL),
        Explanation(tests="*::test_sender__handler_base_do", cause=Cause.SUITE, reason=BROKER_0),
        Explanation(
            tests="*::test_send_without_response",
            cause=Cause.KAFKA,
            reason="produces with acks=0 to a topic that Metadata shows and whose replica is not "
            "open yet: NOT_LEADER_OR_FOLLOWER, so the connection is closed; some runs",
            always=False,
        ),
    ),
    "kafka-python": (
        Explanation(
            tests="*::test_describe_configs_broker_resource_returns_configs",
            cause=Cause.SUITE,
            reason="wants advertised.listeners in server.properties; the fixture leaves it out, "
            "so its source is DEFAULT_CONFIG",
        ),
        Explanation(tests="*::test_create_partitions", cause=Cause.SUITE, reason=BROKER_0),
        Explanation(tests="*/test_ssl_integration.py::*", cause=Cause.SCOPE, reason=NO_SSL),
    ),
    "confluent-kafka-python": (
        Explanation(tests="*/test_describe_operations.py::*", cause=Cause.SCOPE, reason=NO_SASL),
    ),
    "Quix Streams": (
        Explanation(tests="*::test_consumer_reuse", cause=Cause.SUITE, reason=BROKER_0),
        Explanation(tests="*::test_consumer_start_close", cause=Cause.SUITE, reason=BROKER_0),
        Explanation(
            tests="*::test_consumer_close_inner_consumer", cause=Cause.SUITE, reason=BROKER_0
        ),
    ),
}


def explanation(suite: str, test: str) -> Explanation | None:
    """The first that names a test; None if it has to pass."""
    for found in EXPLAINED.get(suite, ()):
        pattern = ".*".join(map(re.escape, found.tests.split("*")))
        if re.fullmatch(pattern, test):
            return found
    return None
