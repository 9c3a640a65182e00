"""Requests to the coordinators of groups, again while they move, load or cannot be reached.

apache/kafka: clients/.../admin/internals/CoordinatorStrategy.java
"""

from collections.abc import Callable
from typing import Any, Final

from cli.connect import ClusterError, UnreachableError, newest
from cli.groups.clients.descriptions import Node
from cli.kafka_errors import exception_text
from cli.records.clients.clock import Again, Clock, repeated
from cli.records.clients.records_api import RecordsApi

FIND_COORDINATOR: Final = 10
GROUP_KEY: Final = 0
TIMED_OUT: Final = 7
MOVED: Final = frozenset({15, 16})
"""COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: it has to be found again."""
AGAIN: Final = MOVED | {14}
"""COORDINATOR_LOAD_IN_PROGRESS too."""
BACKOFF_MS: Final = 100
WITH_IDS: Final = 10
"""Version of OffsetFetch and OffsetCommit from which topics have ids."""


class GroupError(ClusterError):
    """A refusal about a group; the text has the exception of Kafka's tools."""

    def __init__(self, code: int, message: str | None = None) -> None:
        """A refusal by its code, with the message of the answer if it has one."""
        super().__init__(exception_text(code, message))
        self.code = code


class Coordinators:
    """Coordinators of groups, as far as they are known."""

    def __init__(self, api: RecordsApi, clock: Clock, timeout_ms: int) -> None:
        """Nothing is asked yet.

        Args:
            api: The cluster.
            clock: Time to wait by.
            timeout_ms: Of each request with its repetitions.
        """
        self._api = api
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._known: dict[str, Node] = {}

    def ask(
        self,
        group: str,
        api_key: int,
        body: Any,
        code_of: Callable[[Any], int],
        version_min: int = 0,
    ) -> Any:
        """The answer of a group's coordinator.

        Args:
            group: Whose coordinator.
            api_key: The API.
            body: Of the request, kio's newest.
            code_of: Function from an answer to its error code.
            version_min: Of the API, which the body cannot do without.

        Raises:
            GroupError: there was no coordinator in time, or no answer from it.
            ClusterError: the coordinator does not serve the API in such a version.
        """
        limit_ms = self._clock.now_ms() + self._timeout_ms

        def attempt() -> Any:
            try:
                node = self.of(group, limit_ms)
                check_version(self._api, api_key, node.id, version_min)
                answer = self._api.call(api_key, body, node.id)
            except UnreachableError as error:
                self.forget(group)
                return Again(str(error))
            code = code_of(answer)
            if code in MOVED:
                self.forget(group)
            return Again(exception_text(code)) if code in AGAIN else answer

        answer = repeated(attempt, self._clock, BACKOFF_MS, limit_ms)
        if isinstance(answer, Again):
            raise GroupError(TIMED_OUT, f"No answer about group {group} in time: {answer.reason}")
        return answer

    def forget(self, group: str) -> None:
        """Find the coordinator again before the next request."""
        self._known.pop(group, None)

    def of(self, group: str, limit_ms: int | None = None) -> Node:
        """The coordinator of a group.

        Args:
            group: The group.
            limit_ms: End of the search, a time of the clock; None: after the timeout.

        Raises:
            GroupError: refused, or none was there in time.
        """
        if limit_ms is None:
            limit_ms = self._clock.now_ms() + self._timeout_ms
        node = self._known.get(group)
        if node is not None:
            return node
        found = repeated(lambda: self._find(group), self._clock, BACKOFF_MS, limit_ms)
        if isinstance(found, Again):
            raise GroupError(TIMED_OUT, f"No coordinator of group {group} in time: {found.reason}")
        self._known[group] = found
        return found

    def _find(self, group: str) -> Node | Again:
        """Ask for the coordinator once.

        Raises:
            GroupError: refused.
        """
        request = newest(FIND_COORDINATOR).FindCoordinatorRequest(
            key_type=GROUP_KEY, coordinator_keys=(group,)
        )
        (row,) = self._api.call(FIND_COORDINATOR, request).coordinators
        code = int(row.error_code)
        if code in AGAIN:
            return Again(exception_text(code))
        if code:
            raise GroupError(code, row.error_message)
        return Node(int(row.node_id), str(row.host), int(row.port))


def check_version(api: RecordsApi, api_key: int, node: int, version_min: int) -> None:
    """Refuse a broker that is too old for a request.

    Raises:
        ClusterError: it is.
        UnreachableError: it cannot be asked.
    """
    if version_min and api.version_of(api_key, node) < version_min:
        from wire.api_table import api_name  # noqa: PLC0415  # loads the protocol

        raise ClusterError(
            f"broker {node} does not know {api_name(api_key)} {version_min}, "
            "which Kafka has from 4.1 on"
        )
