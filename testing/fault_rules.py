"""Faults as a test says them, made the `Fault` of a node; in the warm process."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from broker.clients.faults import Action, Fault
from testing.errors import RefusedError
from testing.requests import CLIENT_ID
from wire.api_table import SCHEMAS
from wire.errors import ErrorCode
from wire.messages.refusals import NOT_REFUSED

NOT_SERVED: Final = ("Share", "Streams")
"""Words in the names of APIs that nodes do not serve."""
APIS: Final = {
    schema.name: key
    for key, schema in SCHEMAS.items()
    if schema.broker_range is not None and not any(word in schema.name for word in NOT_SERVED)
}
"""Keys of what clients ask brokers, by Kafka's names."""
ERRORS: Final = {code.name.upper(): code for code in ErrorCode if int(code)}
NOT_LOST: Final = frozenset(
    APIS[name]
    for name in (
        "Metadata", "SaslHandshake", "ApiVersions", "CreateTopics", "DeleteTopics", "DescribeAcls",
        "CreateAcls", "DeleteAcls", "DescribeConfigs", "AlterConfigs", "SaslAuthenticate",
        "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken",
        "ExpireDelegationToken", "DescribeDelegationToken", "ElectLeaders",
        "IncrementalAlterConfigs", "AlterPartitionReassignments", "ListPartitionReassignments",
        "DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials",
        "AlterUserScramCredentials", "DescribeQuorum", "UpdateFeatures", "DescribeCluster",
        "UnregisterBroker", "ListConfigResources", "DescribeTopicPartitions", "AddRaftVoter",
        "RemoveRaftVoter",
    )
)  # fmt: skip
"""Those that are done elsewhere in a node, where their answers cannot be lost."""

Value = TypeVar("Value")


class RuleError(RefusedError):
    """A fault that cannot be; one line."""


def rule(
    *,
    action: str,
    api: str | None,
    error: str | None = None,
    delay_ms: int = 0,
    times: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> Fault:
    """The fault of what a test says.

    Raises:
        RuleError: it cannot be so.
    """
    found = Action(action)
    api_key = None if api is None else _named(api, APIS, "API")
    if found is Action.REFUSE and (api_key is None or api_key in NOT_REFUSED):
        raise RuleError(f"{api or 'every API'} cannot be refused")
    if found is Action.LOSE and (api_key is None or api_key in NOT_LOST):
        raise RuleError(f"the answer of {api or 'every API'} cannot be lost behind what it did")
    if times is not None and times < 1:
        raise RuleError(f"times={times}; allowed: 1 or more, None for all requests")
    if found is Action.DELAY and delay_ms < 1:
        raise RuleError(f"delay_ms={delay_ms}; allowed: 1 or more")
    if partition is not None and topic is None:
        raise RuleError(f"partition={partition} of which topic?")
    return Fault(
        action=found,
        api_key=api_key,
        topic=topic,
        partition=partition,
        error=ErrorCode.none if error is None else _named(error, ERRORS, "error"),
        delay_ms=delay_ms,
        times=times,
        spared=(CLIENT_ID,),
    )


def _named(name: str, known: Mapping[str, Value], kind: str) -> Value:
    if name in known:
        return known[name]
    raise RuleError(f"no {kind} {name[:80]!r}{_near(name, known)}")


def _near(name: str, known: Iterable[str]) -> str:
    folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(name.casefold(), folded, 1)
    return f"; is it {folded[near[0]]}?" if near else ""
