"""A group that copies what it reads, each record once: with `--transactions` and `--groups`.

Its members read the topic of the other groups and write to that of the other transactions. A copy
and the offset behind what was copied are in one transaction (TxnOffsetCommit; KIP-98, KIP-447).
`consumer` is a member whose commits are transactions, `session` its process with a transactional
id, `drawing` what a seed decides, `marks` what runs have to meet; simulator/checks/partitions/
copies.py judges what is there in the end.
"""
