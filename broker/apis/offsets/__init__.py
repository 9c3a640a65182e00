"""Offsets that groups commit: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

`offset_topics` has what they share: topics by name or id, and which of them may be named. Not in
it: what is written (coordinator/group/offsets), offsets of records (`records`).
"""
