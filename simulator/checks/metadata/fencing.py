"""I14: an active controller fences no broker within the session time-out of its last heartbeat.

Checked where it is decided: in the newest image of the controller, after each request and each
tick, with the time that the controller got. Brokers that asked to be fenced or to shut down are not
judged.
"""

from typing import Any

from metadata.image import Broker
from quorum_controller.controller import Controller
from quorum_controller.result import ControllerRequest, Output
from simulator.cluster.instance_methods import replace_method
from wire.api_keys import BROKER_HEARTBEAT
from wire.errors import ErrorCode
from wire.types import BrokerEpoch, NodeId


class FencingWatch:
    """Watch of one process's controller; it replaces its bound `activate`, `submit` and `tick`.

    `broken`: describes a session that ended too early, once one did.
    """

    def __init__(self, controller: Controller, session_timeout_ms: int) -> None:
        self.broken: str | None = None
        self._controller = controller
        self._session_timeout_ms = session_timeout_ms
        self._active_ms = 0
        self._heartbeat_ms: dict[tuple[NodeId, BrokerEpoch], int] = {}
        """Time of the last heartbeat of a registration that this controller accepted."""
        self._leaving: set[tuple[NodeId, BrokerEpoch]] = set()
        """Registrations whose last heartbeat asked to be fenced or to shut down."""
        self._brokers = controller.latest.brokers
        activate, submit, tick = controller.activate, controller.submit, controller.tick

        def activated(
            epoch: Any, next_offset: Any, image: Any, now_ms: int, wall_ms: int, **more: Any
        ) -> Output:
            self._active_ms = now_ms
            self._heartbeat_ms.clear()
            self._leaving.clear()
            output = activate(epoch, next_offset, image, now_ms, wall_ms, **more)
            self._brokers = controller.latest.brokers
            return output

        def submitted(request: ControllerRequest, now_ms: int, wall_ms: int) -> Output:
            output = submit(request, now_ms, wall_ms)
            if request.api_key == BROKER_HEARTBEAT:
                self._on_heartbeat(request, output, now_ms)
            self._look(now_ms)
            return output

        def ticked(now_ms: int, wall_ms: int) -> Output:
            output = tick(now_ms, wall_ms)
            self._look(now_ms)
            return output

        for name, watched in (("activate", activated), ("submit", submitted), ("tick", ticked)):
            replace_method(controller, name, watched)

    def _on_heartbeat(self, request: ControllerRequest, output: Output, now_ms: int) -> None:
        for answer in output.answers:
            body: Any = answer.body
            is_refused = body.error_code is not ErrorCode.none
            if answer.reply_token == request.reply_token and is_refused:
                return
        body = request.body
        registration = NodeId(body.broker_id), BrokerEpoch(body.broker_epoch)
        self._heartbeat_ms[registration] = now_ms
        if body.want_fence or body.want_shut_down:
            self._leaving.add(registration)
        else:  # a broker that starts asks for it too, until it has caught up
            self._leaving.discard(registration)

    def _look(self, now_ms: int) -> None:
        brokers = self._controller.latest.brokers
        if brokers is self._brokers or not self._controller.is_active:
            return
        before, self._brokers = self._brokers, brokers
        for number, broker in brokers.items():
            known = before.get(number)
            if broker.fenced and known is not None and not known.fenced:
                self._judge(known, broker, now_ms)

    def _judge(self, before: Broker, fenced: Broker, now_ms: int) -> None:
        registration = fenced.id, fenced.epoch
        is_other = before.epoch != fenced.epoch
        if is_other or before.in_controlled_shutdown or registration in self._leaving:
            return
        heartbeat_ms = max(self._active_ms, self._heartbeat_ms.get(registration, 0))
        if now_ms - heartbeat_ms < self._session_timeout_ms:
            text = f"it fences broker {fenced.id}, {now_ms - heartbeat_ms} ms after its heartbeat"
            self.broken = f"{text}; the session is {self._session_timeout_ms} ms"
