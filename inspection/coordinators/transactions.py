"""Handlers of the resources about transactional ids."""

from broker.coordinators.coordinator_views import Coordinated, CoordinatorViews
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.transaction.metadata import TransactionsImage
from inspection.coordinators.held import held_here, sorted_elsewhere
from inspection.coordinators.pages import page
from inspection.coordinators.shares import coordinator_of, shares
from inspection.coordinators.transaction_views import (
    TransactionDetail,
    TransactionsView,
    ids_of,
    transaction_row,
    transaction_view,
)
from inspection.problem import Problem
from inspection.resources import Service, Values

Held = Coordinated[TransactionsImage]


async def transactions(service: Service, values: Values) -> TransactionsView:
    """Answer with a page of the transactional ids that this node coordinates."""
    cluster = service.node.image
    held: Held = await held_here(service.node, CoordinatorViews.transactions)
    images = held.images
    count = sum(len(image.transactions) for image in images.values())
    chosen = ids_of(values["filter"])
    shown, next_after = await sorted_elsewhere(
        count, lambda: page(images, chosen, values["after"], values["limit"])
    )
    return TransactionsView(
        metadata_offset=cluster.provenance.end_offset,
        transactions=[
            transaction_row(name, number, images[number].transactions[name])
            for name, number in shown
        ],
        transaction_count=count,
        open_count=sum(len(image.open_ids) for image in images.values()),
        loading_count=held.loading_count,
        coordinators=shares(cluster, TRANSACTION_STATE),
        next_after=next_after,
    )


async def transaction(service: Service, values: Values) -> TransactionDetail:
    """Answer with one transactional id."""
    cluster, name = service.node.image, values["id"]
    coordinator = coordinator_of(cluster, TRANSACTION_STATE, name)
    if coordinator is None:
        raise Problem.not_found("transactional id", "id", name)
    held: Held = await held_here(service.node, CoordinatorViews.transactions)
    image = held.images.get(coordinator.partition)
    found = None if image is None else image.transactions.get(name)
    if image is not None and found is None:
        raise Problem.not_found("transactional id", "id", name)
    return TransactionDetail(
        metadata_offset=cluster.provenance.end_offset,
        coordinator=coordinator,
        transaction=None if found is None else transaction_view(name, coordinator.partition, found),
    )
