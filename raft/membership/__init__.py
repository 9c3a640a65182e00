"""Voters: the set that each offset of the log has, and its changes while the quorum runs (KIP-853).

In it: voters with their endpoints and versions, the history of sets, AddRaftVoter, RemoveRaftVoter,
UpdateRaftVoter and the raise of kraft.version on the leader; what is proven and written when a
majority is lost.
Not in it: the records' bytes (metadata/), the majority that a set takes (../quorum.py).
"""
