"""Dispatch of requests by API and kind of listener; APIs not listed here are not served.

Brokers answer reads from their own image and forward changes; controllers write. A request that is
not served closes its connection (wire/), and ApiVersions does not list it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from broker_publisher.metadata_cache import MetadataCache
from broker_publisher.responses import (
    ENDPOINT_CONTROLLER,
    ResponseContext,
    controller_id_for,
    describe_cluster,
    describe_topic_partitions,
    metadata_response,
)
from kernel.config import NodeConfig
from kernel.port import RecordsPort
from kernel.quorum.messages.table import RAFT_API_KEYS
from kernel.quorum.replica import Replica
from kernel.serving.access import Access, principal_of
from kernel.serving.auto_topics import AutoTopics, missing_names
from kernel.serving.config_requests import CONFIG_REQUESTS, forward_alter_configs
from kernel.serving.controller_requests import ControllerRequests
from kernel.serving.forwarding import Forwarding, is_not_controller, request_context
from kernel.serving.log_dirs import LogDirs
from kernel.serving.record_requests import RECORD_REQUESTS, refuse
from metadata.features import KRAFT_VERSION, supported_features
from metadata.image import Image
from metadata.node_configs import NodeConfigs
from network.answers import Encoded
from network.connections import Answered, Client
from quorum_controller.handlers import HANDLERS
from quorum_controller.queries import QUERIES, OnBroker
from quorum_controller.security.authorization import Caller, host_text
from quorum_controller.security.delegation_tokens import NOT_ALLOWED
from wire import api_keys
from wire.api_keys import (
    ADD_RAFT_VOTER,
    API_VERSIONS,
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    ENVELOPE,
    EXPIRE_DELEGATION_TOKEN,
    METADATA,
    REMOVE_RAFT_VOTER,
    RENEW_DELEGATION_TOKEN,
)
from wire.api_table import Api, ListenerKind, api_versions_body, apis
from wire.connections.connection import Request, parse_request
from wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import NodeId, Rng

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
    from kio.schema.envelope.v0.request import EnvelopeRequest

API_VERSIONS_LEVEL_ZERO_SINCE: Final = 4
API_VERSIONS_KEPT: Final = 16
"""Cached ApiVersions bodies: one for each kind of listener, version range and feature set."""

FORWARDED: Final = (
    frozenset(key for key, handler in HANDLERS.items() if handler.is_forwarded)
    | frozenset(key for key, query in QUERIES.items() if query.on_broker is OnBroker.FORWARDED)
    | {DESCRIBE_QUORUM, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER}
)
"""APIs that a broker forwards and that an Envelope may carry."""
ADDRESS_BYTES: Final = (4, 16)
"""Sizes of a client's address in an Envelope: IPv4, IPv6."""
TOKEN_REQUESTS: Final = frozenset(
    {CREATE_DELEGATION_TOKEN, RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN}
)
"""APIs refused on brokers: delegation tokens need an authenticated channel, not PLAINTEXT."""
SUBMITTED: Final = frozenset(HANDLERS)
"""APIs handled by the active controller."""
QUERIED_ON_BROKER: Final = frozenset(
    key for key, query in QUERIES.items() if query.on_broker is OnBroker.LOCAL
)
QUERIED_ON_CONTROLLER: Final = frozenset(
    key for key, query in QUERIES.items() if query.on_controller
)
"""APIs answered from the image of the node that received the request."""
SERVED: Final = {
    ListenerKind.BROKER: FORWARDED
    | RECORD_REQUESTS
    | QUERIED_ON_BROKER
    | {METADATA, API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, DESCRIBE_TOPIC_PARTITIONS},
    ListenerKind.CONTROLLER: RAFT_API_KEYS
    | SUBMITTED
    | QUERIED_ON_CONTROLLER
    | {API_VERSIONS, ENVELOPE, DESCRIBE_CLUSTER},
}

APIS: Final[dict[ListenerKind, dict[int, Api]]] = {
    kind: apis(kind, served) for kind, served in SERVED.items()
}
"""The APIs of a node without a port to records."""


@cache
def apis_of(port: RecordsPort | None) -> Mapping[ListenerKind, Mapping[int, Api]]:
    """Return the APIs by kind of listener of a node with a port, or without."""
    if port is None:
        return APIS
    here = SERVED[ListenerKind.BROKER] - {DESCRIBE_LOG_DIRS}
    return {**APIS, ListenerKind.BROKER: apis(ListenerKind.BROKER, here | port.offered)}


class BesideRecords(msgspec.Struct, frozen=True):
    """The port of a node to its records, and the creation of topics unless that is disabled."""

    port: RecordsPort
    auto_topics: AutoTopics | None


class Dispatch:
    """The dispatch of all requests on all connections of one node.

    `records` has the port to the records of the broker, whose requests do not come here; without
    it, the log directories of a broker that keeps metadata only.
    """

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        *,
        cache: MetadataCache,
        controller: ControllerRequests,
        replica: Replica,
        forwarding: Forwarding,
        rng: Rng,
        records: LogDirs | BesideRecords,
    ) -> None:
        self._config = config
        self._records = records
        beside = records if isinstance(records, BesideRecords) else None
        self._port = None if beside is None else beside.port
        self._auto_topics = None if beside is None else beside.auto_topics
        self._apis = apis_of(self._port)
        self._cluster_id = cluster_id
        self._cache = cache
        self._rows = cache.rows
        self._controller = controller
        self._replica = replica
        self._forwarding = forwarding
        self._rng = rng
        self._properties = dict(config.properties)
        self._access = Access(config.access)

    def serve(self, client: Client, request: Request, answered: Answered) -> None:
        """Answer a request now or later, once."""
        if request.api_key == API_VERSIONS:
            answered(self._api_versions(client, request))
        elif client.kind is ListenerKind.BROKER:
            self._serve_broker(client, request, answered)
        else:
            self._serve_controller(client, request, answered)

    def _serve_broker(self, client: Client, request: Request, answered: Answered) -> None:
        """Serve a request at a broker listener: from the image, or by the active controller."""
        if self._port is not None:
            is_offered = request.api_key in self._port.offered
            assert not is_offered, f"{request.api_key=} is about records"
        image = self._cache.image
        match request.api_key:
            case api_keys.METADATA:
                answered(self._metadata(client, image, request))
            case api_keys.DESCRIBE_CLUSTER:
                context = self._context(client.listener)
                version = request.api_version
                answered(describe_cluster(image, request.body, context, api_version=version))
            case api_keys.DESCRIBE_TOPIC_PARTITIONS:
                answered(self._described_topics(client, image, request.body))
            case api_keys.DESCRIBE_LOG_DIRS:
                answered(self._described_log_dirs(client, image, request.body))
            case key if key in QUERIED_ON_BROKER:
                answered(self._queried(client, request, is_broker=True))
            case key if key in TOKEN_REQUESTS:
                answered(HANDLERS[key].refuse(request.body, NOT_ALLOWED))
            case key if key in CONFIG_REQUESTS:
                forward_alter_configs(
                    request,
                    image,
                    NodeConfigs(image, self._config.node_id, self._properties),
                    lambda rest, reply: self._forwarding.forward(rest, client.address, reply),
                    answered,
                )
            case key if key in RECORD_REQUESTS:
                answered(refuse(request, image))
            case key:
                assert key in FORWARDED, f"{key=} is served by nobody"
                self._forwarding.forward(request, client.address, answered)

    def _metadata(self, client: Client, image: Image, request: Request) -> Entity | Encoded:
        context = self._context(client.listener)
        version = request.api_version
        if self._access.rules is None:
            number = request.correlation_id
            frame = self._rows.frame(image, request.body, context, version, number)
            if frame is not None:
                return Encoded(frame)
        body = metadata_response(image, request.body, context, version)
        refused = self._create_missing(client, image, request)
        return self._access.metadata(image, caller_of(client), request.body, body, refused)

    def _create_missing(self, client: Client, image: Image, request: Request) -> frozenset[str]:
        """Create the topics that a Metadata request misses; those that its caller may not."""
        if self._auto_topics is None or not request.body.allow_auto_topic_creation:
            return frozenset()
        names = missing_names(image, request.body)
        allowed, refused = self._access.creatable(image, caller_of(client), names)
        self._auto_topics.create(request, client.address, allowed)
        return refused

    def _described_log_dirs(
        self, client: Client, image: Image, body: "DescribeLogDirsRequest"
    ) -> Entity:
        caller = caller_of(client)
        refused = self._access.refusal(image, caller, DESCRIBE_LOG_DIRS, body)
        if refused is not None:
            return refused
        assert isinstance(self._records, LogDirs), "not served beside records"
        return self._records.described(image, self._config.node_id, body)

    def _described_topics(
        self, client: Client, image: Image, body: "DescribeTopicPartitionsRequest"
    ) -> Entity:
        caller = caller_of(client)
        allowed, refused = self._access.describable(image, caller, body)
        response = None
        if allowed is not None:
            limit = self._config.broker.response_partitions_max
            response = describe_topic_partitions(image, allowed, client.listener, limit)
        return self._access.described(image, caller, response, refused)

    def _queried(self, client: Client, request: Request, *, is_broker: bool) -> Entity:
        key, version, caller = request.api_key, request.api_version, caller_of(client)
        return self._controller.query(key, request.body, caller, version, is_broker=is_broker)

    def _context(self, listener: str) -> ResponseContext:
        # This node is named as the controller: it is alive and forwards requests. The leader or
        # another broker may just have failed and not be fenced yet, and librdkafka waits for the
        # controller named in Metadata until its own time-out.
        return ResponseContext(
            cluster_id=self._cluster_id,
            listener=listener,
            controller_id=controller_id_for(
                self._cache.image, listener, self._rng, self._config.node_id
            ),
        )

    def _serve_controller(self, client: Client, request: Request, answered: Answered) -> None:
        """Serve a request at the controller listener, once it is authorized."""
        key = request.api_key
        refused = None
        if self._access.rules is not None and key not in SUBMITTED and key not in QUERIES:
            caller = caller_of(client)  # the other APIs are authorized where they are answered
            refused = self._access.refusal(self._cache.image, caller, key, request.body)
        if refused is not None:
            answered(refused)
        elif key in RAFT_API_KEYS:
            self._replica.serve(key, request.body, answered, client.connection_id)
        elif key in SUBMITTED:
            asked = request_context(request, client.address)
            self._controller.submit(key, request.body, answered, asked)
        elif key in QUERIED_ON_CONTROLLER:
            answered(self._queried(client, request, is_broker=False))
        elif key == ENVELOPE:
            self._envelope(request.body, answered)
        else:
            assert key == DESCRIBE_CLUSTER, f"{key=} is served by nobody"
            leader_id = self._replica.leader.leader_id
            context = ResponseContext(
                cluster_id=self._cluster_id,
                listener=client.listener,
                controller_id=NodeId(-1) if leader_id is None else leader_id,
            )
            answered(
                describe_cluster(
                    self._cache.image,
                    request.body,
                    context,
                    ENDPOINT_CONTROLLER,
                    request.api_version,
                )
            )

    # ---- Envelope ----------------------------------------------------------------------------

    def _envelope(self, body: "EnvelopeRequest", answered: Answered) -> None:
        """Answer a forwarded request with a response inside the Envelope, or an error outside.

        In Kafka's order (core/.../EnvelopeUtils.scala): a principal that cannot be decoded is
        PRINCIPAL_DESERIALIZATION_FAILURE whatever the request, an invalid address INVALID_REQUEST,
        a request that cannot be parsed UNSUPPORTED_VERSION.
        """
        if not self._controller.is_active:
            answered(envelope_body(ErrorCode.not_controller))
            return
        address = bytes(body.client_host_address)
        try:
            principal = principal_of(body.request_principal)
        except RemoteProtocolError:
            answered(envelope_body(ErrorCode.principal_deserialization_failure))
            return
        if len(address) not in ADDRESS_BYTES:
            answered(envelope_body(ErrorCode.invalid_request))
            return
        try:
            inner = parse_request(APIS[ListenerKind.CONTROLLER], bytes(body.request_data))
        except RemoteProtocolError:
            answered(envelope_body(ErrorCode.unsupported_version))
            return
        if inner.api_key not in FORWARDED:
            answered(envelope_body(ErrorCode.invalid_request))
            return
        answer = envelope_answer(inner, answered)
        context = request_context(inner, address, principal=principal, is_forwarded=True)
        self._controller.submit(inner.api_key, inner.body, answer, context)

    # ---- ApiVersions -------------------------------------------------------------------------

    def _api_versions(self, client: Client, request: Request) -> Entity:
        if request.error is not None:
            refused: Entity = api_versions_body(self._apis[client.kind], error=request.error)
            return refused
        image = self._cache.image
        levels = dict(image.features.items())
        kraft_version = self._replica.kraft_version
        if kraft_version > 0:  # the level of raft's own records, which are in no image
            levels[KRAFT_VERSION] = kraft_version
        finalized = tuple(item for item in sorted(levels.items()) if item[1] > 0)
        # Older clients cannot read a range that begins at 0 (KAFKA-17011).
        is_old = request.api_version < API_VERSIONS_LEVEL_ZERO_SINCE
        body = _api_versions_of(client.kind, self._port, is_old, finalized)
        return replace(body, finalized_features_epoch=image.provenance.end_offset - 1)


@lru_cache(API_VERSIONS_KEPT)
def _api_versions_of(
    kind: ListenerKind,
    port: RecordsPort | None,
    is_old: bool,  # noqa: FBT001 - a cache key
    finalized: tuple[tuple[str, int], ...],
) -> Entity:
    """Return the ApiVersions response without its epoch, which is the same for all connections."""
    ranges = supported_features(is_controller=kind is ListenerKind.CONTROLLER)
    supported = {name: levels for name, levels in ranges.items() if levels[0] or not is_old}
    body: Entity = api_versions_body(apis_of(port)[kind], supported, dict(finalized))
    return body


def caller_of(client: Client) -> Caller:
    """Return the caller of a connection: anonymous, because listeners are PLAINTEXT."""
    return Caller(host=host_text(client.address))


def envelope_body(error: ErrorCode, response: bytes | None = None) -> Entity:
    """Make the response to an Envelope."""
    new = codec.newest(ENVELOPE, "response")
    return new.EnvelopeResponse(response_data=response, error_code=error)


def envelope_answer(inner: Request, answered: Answered) -> Answered:
    """Return a function that wraps the inner request's response in an Envelope response."""

    def wrap(body: object) -> None:
        if is_not_controller(body):
            answered(envelope_body(ErrorCode.not_controller))
            return
        key, version, correlation_id = inner.api_key, inner.api_version, inner.correlation_id
        try:
            encoded = (
                body.frame
                if isinstance(body, Encoded)
                else codec.encode_response(key, version, correlation_id, body)
            )
        except LocalProtocolError:  # a string is too long for the version
            answered(envelope_body(ErrorCode.unknown_server_error))
            return
        answered(envelope_body(ErrorCode.none, encoded))

    return wrap
