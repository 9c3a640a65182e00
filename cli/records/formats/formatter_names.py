"""Names of Kafka's formatter classes."""

from typing import Final

PACKAGE: Final = "org.apache.kafka.tools.consumer."
DEFAULT: Final = f"{PACKAGE}DefaultMessageFormatter"
COORDINATOR_FORMATTERS: Final = (
    "OffsetsMessageFormatter",
    "GroupMetadataMessageFormatter",
    "TransactionLogMessageFormatter",
)
