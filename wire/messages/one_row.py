"""Layouts of the Fetch of one partition, which a follower or a consumer sends for each record.

Such a request, and a response up to its records, has one size: it is packed and unpacked at once,
with the bytes between the numbers as marks. A frame with other marks is read field by field.
apache/kafka: clients/.../common/message/Fetch{Request,Response}.json (4.3.1, versions 15 to 18)
"""

import struct
from typing import Final

ONE: Final = b"\2"
"""Length of an array of one element."""
REQUEST: Final = struct.Struct(">iiibiis16ssiiqiqi7siqs")
"""Max wait, min and max bytes, isolation level, session id and epoch; ONE, a topic's id; ONE;
partition, leader epoch, fetch offset, last fetched epoch, log start offset, max bytes; REQUEST_END;
the state of the replica: id, broker epoch, no tagged fields."""
REQUEST_END: Final = b"\0\0\1\1\1\1\x0d"
"""No tagged fields of the row and the topic, nothing forgotten, a rack of no letters, one tagged
field: number 1, of 13 bytes."""
CONSUMER_REQUEST: Final = struct.Struct(">iiibiis16ssiiqiqi5s")
"""As REQUEST up to CONSUMER_REQUEST_END."""
CONSUMER_REQUEST_END: Final = b"\0\0\1\1\0"
"""As REQUEST_END, without tagged fields: of a consumer, which has no rack."""
RESPONSE: Final = struct.Struct(">ihis16ssihqqqsi")
"""Throttle time, error, session id; ONE, a topic's id; ONE; partition, error, high watermark, last
stable offset, log start offset; NULL or EMPTY for no aborted transactions, preferred replica."""
NULL: Final = b"\0"
"""Length of no array and of no records; also the number of no tagged fields."""
EMPTY: Final = b"\1"
"""Length of an array of no elements."""
RESPONSE_END: Final = b"\0\0\0"
"""Behind the records: no tagged fields of the row, the topic and the response."""
