"""Transactions drawn from the seed."""

from collections import Counter
from random import Random

from jepsen.transactions.generator import ENDINGS, MICRO_OPERATIONS_MAX, Draw
from jepsen.transactions.topics import KEYS


def drawn(seed, count=1000):
    draw, rng = Draw(), Random(seed)
    return [draw.transaction(rng) for _ in range(count)]


def test_transactions_come_from_the_seed_alone():
    assert drawn(1, 20) == drawn(1, 20) != drawn(2, 20)


def test_each_transaction_appends_values_of_its_own():
    transactions = [rows for rows, _ in drawn(3)]
    appends = [[row for row in rows if row[0] == "append"] for rows in transactions]
    values = [value for rows in appends for _, _, value in rows]
    assert sorted(values) == list(range(len(values)))
    assert all(appends)
    assert {len(rows) for rows in transactions} == set(range(1, MICRO_OPERATIONS_MAX + 1))
    assert {row[1] for rows in transactions for row in rows} == {str(key) for key in KEYS}
    assert any(len({key for _, key, _ in rows}) < len(rows) for rows in appends), "twice to one"
    assert {rows[0][0] for rows in transactions} == {"append", "r"}, "in any order"


def test_reads_and_endings_have_their_shares():
    transactions = drawn(4)
    rows = [row for rows, _ in transactions for row in rows]
    assert all(row[2] is None for row in rows if row[0] == "r")
    assert 0.22 < sum(row[0] == "r" for row in rows) / len(rows) < 0.32, "0.4 of two in three"
    endings = Counter(ending for _, ending in transactions)
    assert set(endings) == set(ENDINGS)
    assert 800 < endings["commit"] < 880
    assert endings["abort"] > endings["abandon"] > 20 < endings["zombie"]
