"""`kraftline transactions`: what coordinators and leaders know of transactions.

`command` has the command line; `listings` asks coordinators, `producers` the leaders of partitions,
`hanging` joins both: a transaction that is open at a leader and that no coordinator will end.
`table` is the form of the output.
"""
