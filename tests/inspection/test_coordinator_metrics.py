"""Metrics of the coordinators: each number under Kafka's name."""

from broker.coordinators.figures import GroupFigures, ShardFigures, TransactionFigures
from coordinator.group.classic.states import ClassicGroupState
from coordinator.group.consumer.group import GroupState
from coordinator.group.counts import GroupCounts, GroupNumbers
from coordinator.runtime.shard import ShardState
from coordinator.transaction.states import TransactionState
from inspection.coordinator_metrics import group_metrics, transaction_metrics

SHARDS = ShardFigures(
    states={ShardState.LOADING: 1, ShardState.ACTIVE: 2}, load_ms_average=4.5, load_ms_max=5
)
GROUPS = GroupFigures(
    shards=SHARDS,
    counts=GroupCounts(11, 12, 13, 14, 15),
    numbers=GroupNumbers(
        offsets=20,
        classic={state: 30 + number for number, state in enumerate(ClassicGroupState)},
        consumer={state: 40 + number for number, state in enumerate(GroupState)},
    ),
)
TRANSACTIONS = TransactionFigures(
    shards=SHARDS,
    ids=50,
    open={TransactionState.ONGOING: 51, TransactionState.PREPARE_ABORT: 52},
    unknown_destinations=53,
    append_retries=54,
)


def samples(metrics):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def test_groups():
    metrics, manager = (
        "kafka_server_group_coordinator_metrics_",
        "kafka_coordinator_group_groupmetadatamanager_",
    )
    assert samples(group_metrics(GROUPS)) == {
        (metrics + "state_loading_num_partitions",): 1,
        (metrics + "state_active_num_partitions",): 2,
        (metrics + "state_failed_num_partitions",): 0,
        (metrics + "partition_load_time_avg",): 4.5,
        (metrics + "partition_load_time_max",): 5,
        (metrics + "protocol_classic_group_count",): 160,
        (metrics + "protocol_consumer_group_count",): 166,
        (metrics + "state_empty_consumer_group_count",): 40,
        (metrics + "state_assigning_consumer_group_count",): 41,
        (metrics + "state_reconciling_consumer_group_count",): 42,
        (metrics + "state_stable_consumer_group_count",): 43,
        (metrics + "offset_commit_count",): 11,
        (metrics + "offset_expiration_count",): 12,
        (metrics + "offset_deletion_count",): 13,
        (metrics + "group_completed_rebalance_count",): 14,
        (metrics + "consumer_group_rebalance_count",): 15,
        (manager + "numoffsets",): 20,
        (manager + "numgroups",): 160,
        (manager + "numgroupsempty",): 30,
        (manager + "numgroupspreparingrebalance",): 31,
        (manager + "numgroupscompletingrebalance",): 32,
        (manager + "numgroupsstable",): 33,
        (manager + "numgroupsdead",): 34,
    }


def test_transactions():
    metrics = "kafka_server_transaction_coordinator_metrics_"
    markers = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
    assert samples(transaction_metrics(TRANSACTIONS)) == {
        (metrics + "partition_load_time_avg",): 4.5,
        (metrics + "partition_load_time_max",): 5,
        (markers + "unknowndestinationqueuesize",): 53,
        (markers + "logappendretryqueuesize",): 54,
        ("kraftline_transactional_ids",): 50,
        ("kraftline_transaction_coordinator_partitions", "loading"): 1,
        ("kraftline_transaction_coordinator_partitions", "active"): 2,
        ("kraftline_transaction_coordinator_partitions", "failed"): 0,
        ("kraftline_transactions", "Ongoing"): 51,
        ("kraftline_transactions", "PrepareAbort"): 52,
    }
