"""Requests of a member to the coordinator of its group: asked once, the caller repeats them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from cli.connect import UnreachableError
from cli.groups.clients.coordinators import (
    MOVED,
    TIMED_OUT,
    Coordinators,
    GroupError,
    check_version,
)
from cli.groups.membership.actions import GroupConfig, Join, MemberError, Sync
from cli.groups.membership.held import HeldRequest
from cli.groups.membership.requests import Request, code_of, request_of
from cli.records.clients.clock import Clock
from cli.records.clients.records_api import RecordsApi

PATIENCE_MS: Final = 3_000
"""Time for which a coordinator may be absent without a word: the first look creates its topic."""


class NobodyError(Exception):
    """There is no coordinator for now."""


class CoordinatorLink:
    """The coordinator of one group, as far as it is known."""

    def __init__(
        self,
        api: RecordsApi,
        config: GroupConfig,
        clock: Clock,
        coordinators: Coordinators,
        on_problem: Callable[[str], None],
    ) -> None:
        """Nothing is asked yet.

        Args:
            api: The cluster.
            config: Of the member.
            clock: Time.
            coordinators: Told of a coordinator that is there no more.
            on_problem: Told of one that is absent for long.
        """
        self._api = api
        self._config = config
        self._clock = clock
        self._coordinators = coordinators
        self._alone_since_ms: int | None = None
        """Time since which there is no coordinator; None while there is one."""
        self._is_told = False
        """There was no coordinator the last time, and that is told."""
        self._on_problem = on_problem

    def ask(
        self, request: Request, code_of: Callable[[Any], int] = code_of, version_min: int = 0
    ) -> Any:
        """The answer to a request.

        Args:
            request: API and body.
            code_of: Function from the answer to its error code.
            version_min: Of the API, which the body cannot do without.

        Raises:
            NobodyError: there is no coordinator now.
            MemberError: the group is refused.
            ClusterError: the coordinator does not serve the API in such a version.
        """
        api_key, body = request
        node_id = self._node()
        with self._noticing_absence():
            check_version(self._api, api_key, node_id, version_min)
            answer = self._api.call(api_key, body, node_id)
        self._note(code_of(answer))
        return answer

    def hold(self, action: Join | Sync) -> HeldRequest:
        """Send a request that may be answered late.

        Raises:
            NobodyError: there is no coordinator now.
            MemberError: the group is refused.
            ClusterError: the coordinator does not serve the API.
        """
        request, node_id = request_of(action, self._config), self._node()
        with self._noticing_absence():
            call = self._api.begin(*request, node_id)
        return HeldRequest(action, call, self._clock, self._config)

    def answer(self, held: HeldRequest, wait_ms: int) -> Any:
        """The answer to a request that was sent before; None if it is not there in time.

        Raises:
            NobodyError: the connection broke, or the request is given up.
        """
        with self._noticing_absence():
            answer = held.answer(wait_ms)
        if answer is not None:
            self._note(code_of(answer))
        return answer

    def tell_of_absence(self, error: Exception) -> None:
        """Say once that there is no coordinator, when its topic cannot just have been created."""
        now_ms = self._clock.now_ms()
        if self._alone_since_ms is None:
            self._alone_since_ms, self._is_told = now_ms, False
        if not self._is_told and now_ms >= self._alone_since_ms + PATIENCE_MS:
            self._is_told = True
            self._on_problem(f"No coordinator of group {self._config.group_id} yet: {error}")

    def _node(self) -> int:
        """Id of the coordinator.

        Raises:
            NobodyError: there is none now.
            MemberError: the group is refused.
        """
        try:
            return self._coordinators.of(self._config.group_id, self._clock.now_ms()).id
        except GroupError as error:
            if error.code == TIMED_OUT:
                raise NobodyError(str(error)) from error
            raise MemberError(error.code) from error
        except UnreachableError as error:
            raise NobodyError(str(error)) from error

    @contextlib.contextmanager
    def _noticing_absence(self) -> Iterator[None]:
        """Look for the coordinator again if it is not reached within the block.

        Raises:
            NobodyError: it is not.
        """
        try:
            yield
        except UnreachableError as error:
            self._coordinators.forget(self._config.group_id)
            raise NobodyError(str(error)) from error

    def _note(self, code: int) -> None:
        """There is a coordinator; it may be another than the one that answered."""
        self._alone_since_ms = None
        if code in MOVED:
            self._coordinators.forget(self._config.group_id)
