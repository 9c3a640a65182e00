"""Resources of the API: one declaration each serves it, checks its parameters and documents it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from broker.coordinators.coordinator_views import ENDS_MAX, GROUPS_MAX
from inspection import replicas, resources
from inspection.coordinators import groups, transactions
from inspection.coordinators.group_views import GroupDetail, GroupsView
from inspection.coordinators.transaction_views import OPEN, TransactionDetail, TransactionsView
from inspection.diff import DiffView
from inspection.health import HealthView
from inspection.parameters import LONG_MAX, Choice, Flag, Parameter, Place, WholeNumber
from inspection.quorum_views import QuorumView
from inspection.record_views import RecordsView
from inspection.replicas import PartitionDetail, RecordsSummary
from inspection.resources import (
    AclsView,
    BrokerDetail,
    BrokersView,
    FeaturesView,
    ImageView,
    PartitionsView,
    ProducerIdsView,
    QuotasView,
    Service,
    TopicsView,
)
from inspection.views import CONFIG_TYPES, FILTERS, ConfigsView, TopicDetail

PAGE_DEFAULT: Final = 1_000
PAGE_MAX: Final = 10_000
GROUPS_DEFAULT: Final = 100
NODE_ID_MAX: Final = 2**31 - 1

Handler = Callable[[Service, dict[str, Any]], Awaitable[Any]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One resource."""

    path: str
    """Path with {names} of path parameters."""
    summary: str
    handler: Handler
    """Returns an instance of `answer`."""
    answer: type
    parameters: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = ()
    """Statuses of refusals beside 400, with a problem document."""
    has_etag: bool = False
    """True if the answer depends on the metadata offset alone: a weak ETag, shared by all forms."""


def _path(name: str, description: str) -> Parameter:
    return Parameter(name=name, place=Place.PATH, description=description, is_required=True)


def _number(name: str, description: str, **limits: Any) -> WholeNumber:
    place = limits.pop("place", Place.QUERY)
    return WholeNumber(name=name, place=place, description=description, **limits)


LIMIT: Final = _number(
    "limit", "how many at most", minimum=1, maximum=PAGE_MAX, default=PAGE_DEFAULT
)
AFTER_NAME: Final = Parameter(
    name="after", place=Place.QUERY, description="go on behind this name: `next_after` of the page"
)
AFTER_PARTITION: Final = Parameter(
    name="after",
    place=Place.QUERY,
    description="go on behind this partition, as topic-number: `next_after` of a page",
    pattern=r"[^\u0000]+-[0-9]{1,10}",
    form="topic-number, as in orders-3",
)
AT_OFFSET: Final = _number(
    "offset", "all records below this offset", place=Place.PATH, is_required=True
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        path="/v1/quorum",
        summary="The metadata quorum: leader, epoch, high watermark, replicas with lag, elections",
        handler=resources.quorum,
        answer=QuorumView,
    ),
    Route(
        path="/v1/brokers",
        summary="Registered brokers by id",
        handler=resources.brokers,
        answer=BrokersView,
        parameters=(
            LIMIT,
            _number("after", "go on behind this id: `next_after` of the page", maximum=NODE_ID_MAX),
        ),
        has_etag=True,
    ),
    Route(
        path="/v1/brokers/{id}",
        summary="One broker",
        handler=resources.broker,
        answer=BrokerDetail,
        parameters=(
            _number("id", "node id", place=Place.PATH, maximum=NODE_ID_MAX, is_required=True),
        ),
        statuses=(404,),
        has_etag=True,
    ),
    Route(
        path="/v1/topics",
        summary="Topics by name",
        handler=resources.topics,
        answer=TopicsView,
        parameters=(LIMIT, AFTER_NAME),
        has_etag=True,
    ),
    Route(
        path="/v1/topics/{name}",
        summary="One topic with its configs and partitions",
        handler=resources.topic,
        answer=TopicDetail,
        parameters=(_path("name", "topic name"),),
        statuses=(404,),
        has_etag=True,
    ),
    Route(
        path="/v1/partitions",
        summary="Partitions by topic and number, all or those in one state",
        handler=resources.partitions,
        answer=PartitionsView,
        parameters=(
            Choice(
                name="filter",
                place=Place.QUERY,
                description="under_replicated: ISR smaller than the replicas; no_leader: nobody "
                "leads; offline: nobody leads or the leader is fenced; at_min_isr: the ISR has "
                "exactly min.insync.replicas",
                choices=FILTERS,
            ),
            LIMIT,
            AFTER_PARTITION,
        ),
        has_etag=True,
    ),
    Route(
        path="/v1/partitions/{topic}/{partition}",
        summary="One partition with its replica at this node: log, segments, producers, followers",
        handler=replicas.partition,
        answer=PartitionDetail,
        parameters=(
            _path("topic", "topic name"),
            _number(
                "partition",
                "number of the partition",
                place=Place.PATH,
                maximum=NODE_ID_MAX,
                is_required=True,
            ),
        ),
        statuses=(404, 503),
    ),
    Route(
        path="/v1/records",
        summary="Counts of this broker's records: produced, fetched, replicated, waiting, behind",
        handler=replicas.local_records,
        answer=RecordsSummary,
        statuses=(404, 503),
    ),
    Route(
        path="/v1/groups",
        summary="Groups that this node coordinates, with state, members and lag; who has the rest",
        handler=groups.groups,
        answer=GroupsView,
        parameters=(
            _number(
                "limit",
                "how many at most",
                minimum=1,
                maximum=GROUPS_MAX,
                default=GROUPS_DEFAULT,
            ),
            AFTER_NAME,
        ),
        statuses=(404, 503),
    ),
    Route(
        path="/v1/groups/{id}",
        summary="One group at its coordinator: members with assignments, offsets with lag",
        handler=groups.group,
        answer=GroupDetail,
        parameters=(
            _path("id", "group id"),
            _number(
                "limit",
                "how many offsets at most",
                minimum=1,
                maximum=ENDS_MAX,
                default=ENDS_MAX,
            ),
            AFTER_PARTITION,
        ),
        statuses=(404, 503),
    ),
    Route(
        path="/v1/transactions",
        summary="Transactional ids that this node coordinates; who has the rest",
        handler=transactions.transactions,
        answer=TransactionsView,
        parameters=(
            Choice(
                name="filter",
                place=Place.QUERY,
                description="open: those with a transaction that is open or prepared",
                choices=(OPEN,),
            ),
            LIMIT,
            AFTER_NAME,
        ),
        statuses=(404, 503),
    ),
    Route(
        path="/v1/transactions/{id}",
        summary="One transactional id at its coordinator, with the partitions of its transaction",
        handler=transactions.transaction,
        answer=TransactionDetail,
        parameters=(_path("id", "transactional id"),),
        statuses=(404, 503),
    ),
    Route(
        path="/v1/configs/{type}/{name}",
        summary="Dynamic configs of one resource; the name <default> is the cluster's default",
        handler=resources.configs,
        answer=ConfigsView,
        parameters=(
            Choice(
                name="type",
                place=Place.PATH,
                description="kind of resource",
                choices=tuple(CONFIG_TYPES),
                is_required=True,
            ),
            _path("name", "topic name, node id, group id, subscription name, or <default>"),
        ),
        statuses=(404,),
        has_etag=True,
    ),
    Route(
        path="/v1/features",
        summary="Finalized features, and the levels that this node supports",
        handler=resources.features,
        answer=FeaturesView,
        has_etag=True,
    ),
    Route(
        path="/v1/acls",
        summary="Access control entries",
        handler=resources.acls,
        answer=AclsView,
        parameters=(LIMIT, AFTER_NAME),
        has_etag=True,
    ),
    Route(
        path="/v1/quotas",
        summary="Client quotas by entity",
        handler=resources.quotas,
        answer=QuotasView,
        parameters=(
            LIMIT,
            _number("after", "go on behind so many quotas: `next_after` of the page", default=0),
        ),
        has_etag=True,
    ),
    Route(
        path="/v1/producer-ids",
        summary="The next block of producer ids",
        handler=resources.producer_ids,
        answer=ProducerIdsView,
        has_etag=True,
    ),
    Route(
        path="/v1/metadata/image",
        summary="The whole metadata image (secrets hidden)",
        handler=resources.image,
        answer=ImageView,
        has_etag=True,
    ),
    Route(
        path="/v1/metadata/records",
        summary="The committed log, decoded",
        handler=resources.records,
        answer=RecordsView,
        parameters=(_number("from", "first offset; the start of the log if not given"), LIMIT),
        statuses=(404, 410),
    ),
    Route(
        path="/v1/metadata/at/{offset}/topics",
        summary="Topics as they were when all records below an offset were applied",
        handler=resources.topics_at,
        answer=TopicsView,
        parameters=(AT_OFFSET, LIMIT, AFTER_NAME),
        statuses=(404, 410),
    ),
    Route(
        path="/v1/metadata/diff",
        summary="What changed between two offsets",
        handler=resources.diff,
        answer=DiffView,
        parameters=(
            _number("from", "all records below this offset: the state before", is_required=True),
            _number("to", "the state after; what is committed now if not given"),
            LIMIT,
            _number(
                "after",
                "go on behind so many changes: `next_after` of a page",
                default=0,
                maximum=LONG_MAX,
            ),
        ),
        statuses=(404, 410),
    ),
    Route(
        path="/livez",
        summary="Whether the process serves at all",
        handler=resources.livez,
        answer=HealthView,
        parameters=(Flag(name="verbose", place=Place.QUERY, description="list the checks"),),
    ),
    Route(
        path="/readyz",
        summary="Leader known, caught up, high watermark moving, unfenced",
        handler=resources.readyz,
        answer=HealthView,
        parameters=(Flag(name="verbose", place=Place.QUERY, description="list the checks"),),
        statuses=(503,),
    ),
)

STREAM_PARAMETERS: Final[tuple[Parameter, ...]] = (
    _number("from", "first offset; the end of what is committed if not given"),
)
