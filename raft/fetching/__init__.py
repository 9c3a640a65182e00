"""The log as followers pull it: Fetch and FetchSnapshot on both ends, and what a leader learns.

In it: the leader's answers and parked fetches, the follower's requests and truncations, the epochs
of the log, the progress of each replica.
Not in it: bytes of records (storage/), the high watermark's majority (../quorum.py).
"""
