"""The messages of the quorum between Kafka's bodies and the core: one module each.

A module holds request and response, both `_from_wire` (kio's newest class -> `raft/messages.py`)
and `_to_wire`, and the refusal of a request that is about another partition. `table` finds the
module by API key and by message; `partition` has the wrapping in topics that they share.
Not in it: versions and bytes (wire/messages/codec.py), the meaning of a message (raft/).
"""
