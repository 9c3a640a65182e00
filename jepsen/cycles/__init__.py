"""Checker of transactions that append to lists and read them, after Elle (VLDB 2020) and Jepsen.

`transactions` reads a history, `versions` orders the values of every list and judges single
values, `dependencies` builds the graphs, `graphs` finds cycles in them, `checker.judged` composes
all of it to what Kafka promises never and what it permits. Of the project it knows only
`jepsen.linearizability`'s histories.
Not in it: how the history came about (`jepsen.transactions`).
"""
