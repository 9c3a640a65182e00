"""Elections: votes asked and granted, and the end of a leader noticed, explained and announced.

In it: Vote and pre-votes, Begin- and EndQuorumEpoch, evidence that a leader has ended, the cause of
each loss, a leader's stalled flush, the first role after a start, voters that lost their disk.
Not in it: which transitions are allowed (../transitions.py), who may vote (../membership/).
"""
