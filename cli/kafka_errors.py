"""Kafka's texts for error codes: default messages and exception names that its tools print.

Source: apache/kafka: clients/.../common/protocol/Errors.java, 4.3.
"""

from typing import Final

_PREFIX: Final = "org.apache.kafka.common.errors."

# code -> (exception class, message when the response has none)
_ERRORS: Final[dict[int, tuple[str, str]]] = {
    -1: (
        "UnknownServerException",
        "The server experienced an unexpected error when processing the request.",
    ),
    1: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    2: (
        "CorruptRecordException",
        (
            "This message has failed its CRC checksum, exceeds the valid size, has a null key "
            "for a compacted topic, or is otherwise corrupt."
        ),
    ),
    3: ("UnknownTopicOrPartitionException", "This server does not host this topic-partition."),
    4: ("InvalidFetchSizeException", "The requested fetch size is invalid."),
    5: (
        "LeaderNotAvailableException",
        (
            "There is no leader for this topic-partition as we are in the middle of a leadership "
            "election."
        ),
    ),
    6: (
        "NotLeaderOrFollowerException",
        (
            "For requests intended only for the leader, this error indicates that the broker is "
            "not the current leader. For requests intended for any replica, this error indicates "
            "that the broker is not a replica of the topic partition."
        ),
    ),
    7: ("TimeoutException", "The request timed out."),
    10: (
        "RecordTooLargeException",
        "The request included a message larger than the max message size the server will accept.",
    ),
    12: (
        "OffsetMetadataTooLarge",
        "The metadata field of the offset request was too large.",
    ),
    13: ("NetworkException", "The server disconnected before a response was received."),
    14: (
        "CoordinatorLoadInProgressException",
        "The coordinator is loading and hence can't process requests.",
    ),
    15: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    16: ("NotCoordinatorException", "This is not the correct coordinator."),
    17: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    18: (
        "RecordBatchTooLargeException",
        "The request included message batch larger than the configured segment size on the server.",
    ),
    19: (
        "NotEnoughReplicasException",
        "Messages are rejected since there are fewer in-sync replicas than required.",
    ),
    20: (
        "NotEnoughReplicasAfterAppendException",
        "Messages are written to the log, but to fewer in-sync replicas than required.",
    ),
    21: (
        "InvalidRequiredAcksException",
        "Produce request specified an invalid value for required acks.",
    ),
    22: (
        "IllegalGenerationException",
        "Specified group generation id is not valid.",
    ),
    23: (
        "InconsistentGroupProtocolException",
        (
            "The group member's supported protocols are incompatible with those of existing "
            "members or first group member tried to join with empty protocol type or empty "
            "protocol list."
        ),
    ),
    24: ("InvalidGroupIdException", "The group id is invalid."),
    25: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    26: (
        "InvalidSessionTimeoutException",
        (
            "The session timeout is not within the range allowed by the broker (as configured by "
            "group.min.session.timeout.ms and group.max.session.timeout.ms)."
        ),
    ),
    27: (
        "RebalanceInProgressException",
        "The group is rebalancing, so a rejoin is needed.",
    ),
    28: (
        "InvalidCommitOffsetSizeException",
        "The committing offset data size is not valid.",
    ),
    29: ("TopicAuthorizationException", "Topic authorization failed."),
    30: ("GroupAuthorizationException", "Group authorization failed."),
    31: ("ClusterAuthorizationException", "Cluster authorization failed."),
    32: ("InvalidTimestampException", "The timestamp of the message is out of acceptable range."),
    35: ("UnsupportedVersionException", "The version of API is not supported."),
    36: ("TopicExistsException", "Topic with this name already exists."),
    37: ("InvalidPartitionsException", "Number of partitions is below 1."),
    38: (
        "InvalidReplicationFactorException",
        "Replication factor is below 1 or larger than the number of available brokers.",
    ),
    39: ("InvalidReplicaAssignmentException", "Replica assignment is invalid."),
    40: ("InvalidConfigurationException", "Configuration is invalid."),
    41: ("NotControllerException", "This is not the correct controller for this cluster."),
    42: (
        "InvalidRequestException",
        (
            "This most likely occurs because of a request being malformed by the client library or "
            "the message was sent to an incompatible broker. See the broker logs for more details."
        ),
    ),
    43: (
        "UnsupportedForMessageFormatException",
        "The message format version on the broker does not support the request.",
    ),
    44: ("PolicyViolationException", "Request parameters do not satisfy the configured policy."),
    45: ("OutOfOrderSequenceException", "The broker received an out of order sequence number."),
    46: ("DuplicateSequenceException", "The broker received a duplicate sequence number."),
    47: ("InvalidProducerEpochException", "Producer attempted to produce with an old epoch."),
    48: (
        "InvalidTxnStateException",
        "The producer attempted a transactional operation in an invalid state.",
    ),
    49: (
        "InvalidPidMappingException",
        (
            "The producer attempted to use a producer id which is not currently assigned to its "
            "transactional id."
        ),
    ),
    50: (
        "InvalidTxnTimeoutException",
        (
            "The transaction timeout is larger than the maximum value allowed by the broker (as "
            "configured by transaction.max.timeout.ms)."
        ),
    ),
    51: (
        "ConcurrentTransactionsException",
        (
            "The producer attempted to update a transaction while another concurrent operation on "
            "the same transaction was ongoing."
        ),
    ),
    52: (
        "TransactionCoordinatorFencedException",
        (
            "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the "
            "current coordinator for a given producer."
        ),
    ),
    53: ("TransactionalIdAuthorizationException", "Transactional Id authorization failed."),
    54: ("SecurityDisabledException", "Security features are disabled."),
    56: ("KafkaStorageException", "Disk error when trying to access log file on the disk."),
    57: (
        "LogDirNotFoundException",
        "The user-specified log directory is not found in the broker config.",
    ),
    59: (
        "UnknownProducerIdException",
        (
            "This exception is raised by the broker if it could not locate the producer "
            "metadata associated with the producerId in question. This could happen if, for "
            "instance, the producer's records were deleted because their retention time had "
            "elapsed. Once the last records of the producerId are removed, the producer's "
            "metadata is removed from the broker, and future appends by the producer will "
            "return this exception."
        ),
    ),
    60: ("ReassignmentInProgressException", "A partition reassignment is in progress."),
    68: ("GroupNotEmptyException", "The group is not empty."),
    69: ("GroupIdNotFoundException", "The group id does not exist."),
    73: ("TopicDeletionDisabledException", "Topic deletion is disabled."),
    74: (
        "FencedLeaderEpochException",
        "The leader epoch in the request is older than the epoch on the broker.",
    ),
    75: (
        "UnknownLeaderEpochException",
        "The leader epoch in the request is newer than the epoch on the broker.",
    ),
    76: (
        "UnsupportedCompressionTypeException",
        "The requesting client does not support the compression type of given partition.",
    ),
    78: (
        "OffsetNotAvailableException",
        (
            "The leader high watermark has not caught up from a recent leader election so the "
            "offsets cannot be guaranteed to be monotonically increasing."
        ),
    ),
    79: (
        "MemberIdRequiredException",
        (
            "The group member needs to have a valid member id before actually entering a consumer "
            "group."
        ),
    ),
    80: ("PreferredLeaderNotAvailableException", "The preferred leader was not available."),
    81: (
        "GroupMaxSizeReachedException",
        "The group has reached its maximum size.",
    ),
    82: (
        "FencedInstanceIdException",
        (
            "The broker rejected this static consumer since another consumer with the same "
            "group.instance.id has registered with a different member.id."
        ),
    ),
    83: (
        "EligibleLeadersNotAvailableException",
        "Eligible topic partition leaders are not available.",
    ),
    84: ("ElectionNotNeededException", "Leader election not needed for topic partition."),
    85: ("NoReassignmentInProgressException", "No partition reassignment is in progress."),
    86: (
        "GroupSubscribedToTopicException",
        (
            "Deleting offsets of a topic is forbidden while the consumer group is actively "
            "subscribed to it."
        ),
    ),
    87: (
        "InvalidRecordException",
        "This record has failed the validation on broker and hence will be rejected.",
    ),
    88: (
        "UnstableOffsetCommitException",
        "There are unstable offsets that need to be cleared.",
    ),
    89: ("ThrottlingQuotaExceededException", "The throttling quota has been exceeded."),
    90: (
        "ProducerFencedException",
        ("There is a newer producer with the same transactionalId which fences the current one."),
    ),
    91: (
        "ResourceNotFoundException",
        "A request illegally referred to a resource that does not exist.",
    ),
    92: (
        "DuplicateResourceException",
        "A request illegally referred to the same resource twice.",
    ),
    93: (
        "UnacceptableCredentialException",
        "Requested credential would not meet criteria for acceptability.",
    ),
    95: ("InvalidUpdateVersionException", "The given update version was invalid."),
    96: (
        "FeatureUpdateFailedException",
        "Unable to update finalized features due to an unexpected server error.",
    ),
    100: ("UnknownTopicIdException", "This server does not host this topic ID."),
    102: ("BrokerIdNotRegisteredException", "The given broker ID was not registered."),
    103: (
        "InconsistentTopicIdException",
        "The log's topic ID did not match the topic ID in the request.",
    ),
    104: (
        "InconsistentClusterIdException",
        "The clusterId in the request does not match that found on the server",
    ),
    105: ("TransactionalIdNotFoundException", "The transactionalId could not be found."),
    110: (
        "FencedMemberEpochException",
        (
            "The member epoch is fenced by the group coordinator. The member must abandon all its "
            "partitions and rejoin."
        ),
    ),
    111: (
        "UnreleasedInstanceIdException",
        (
            "The instance ID is still used by another member in the consumer group. That member "
            "must leave first."
        ),
    ),
    112: (
        "UnsupportedAssignorException",
        "The assignor or its version range is not supported by the consumer group.",
    ),
    113: (
        "StaleMemberEpochException",
        (
            "The member epoch is stale. The member must retry after receiving its updated member "
            "epoch via the ConsumerGroupHeartbeat API."
        ),
    ),
    114: (
        "MismatchedEndpointTypeException",
        "The request was sent to an endpoint of the wrong type.",
    ),
    115: ("UnsupportedEndpointTypeException", "This endpoint type is not supported yet."),
    120: (
        "TransactionAbortableException",
        (
            "The server encountered an error with the transaction. The client can abort the "
            "transaction to continue using this transactional ID."
        ),
    ),
    126: ("DuplicateVoterException", "The voter is already part of the set of voters."),
    127: ("VoterNotFoundException", "The voter is not part of the set of voters."),
    128: ("InvalidRegularExpression", "The regular expression is not valid."),
}


def message_of(code: int, message: str | None = None) -> str:
    """The message of a response; without one Kafka's default message of the code."""
    if message:
        return message
    known = _ERRORS.get(code)
    return f"error code {code}" if known is None else known[1]


def exception_text(code: int, message: str | None = None) -> str:
    """Exception and message in the form that a Java tool prints inside a line."""
    return f"{exception_class(code)}: {message_of(code, message)}"


def exception_class(code: int) -> str:
    """The Java class of the exception that a code becomes."""
    return _PREFIX + _ERRORS.get(code, ("ApiException", ""))[0]
