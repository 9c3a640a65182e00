"""Costs of the work on requests of clients, in the units of a turn's budget."""

from typing import Final

LOOK_UNITS: Final = 2
"""Cost of a look at a connection."""
FORWARD_UNITS: Final = 6
"""Cost of a frame for the kernel."""
CALL_UNITS: Final = 60
"""Cost of a call beside those of its bytes and its partitions."""
PARTITION_UNITS: Final = 30
"""Cost of a partition that the handler of a call looked at."""
BYTES_PER_UNIT: Final = 2048
"""Bytes of a frame that cost a unit: they are copied, checked and written."""
ANSWER_UNITS: Final = 10
"""Cost of an answer that has waited."""
