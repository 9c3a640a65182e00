"""All recorded requests with their answers, of every API and scenario."""

import json
import lzma
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden" / "wire" / "all-pairs.jsonl.xz"


@cache
def pairs():
    """Every pair in the order of the recording."""
    return [json.loads(line) for line in lzma.decompress(GOLDEN.read_bytes()).splitlines()]


def answered(*apis):
    """The pairs of some APIs that have an answer."""
    return [pair for pair in pairs() if pair["api"] in apis and pair["response_hex"]]


def of_key(api_key):
    """The pairs of an API, with an answer or without."""
    return [pair for pair in pairs() if pair["api_key"] == api_key]


def named(pair_id):
    """The pair of an id."""
    (pair,) = [pair for pair in pairs() if pair["id"] == pair_id]
    return pair


def key(pair):
    """Key of a pair in the lists of exceptions."""
    return pair["scenario"], pair["ms"]
