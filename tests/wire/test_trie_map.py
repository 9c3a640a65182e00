"""The map of Python 3.14 does what that of immutables does, which the others have."""

import pickle
import random

import immutables
import pytest

from wire import persistent_map
from wire.trie_map import TrieMap

KINDS = pytest.mark.parametrize("kind", [TrieMap, immutables.Map])


def test_this_python_has_one_of_them() -> None:
    assert persistent_map.Map in (TrieMap, immutables.Map)


@KINDS
def test_entries_are_set_updated_and_deleted_and_older_maps_stay(kind) -> None:
    rng = random.Random(1)
    made, model, older = kind(), {}, []
    for number in range(300):
        key = rng.randrange(20)
        if rng.random() < 0.4 and key in model:
            made, model = made.delete(key), {k: v for k, v in model.items() if k != key}
        elif rng.random() < 0.2:
            more = {key: number, key + 1: -number}
            made, model = made.update(more), {**model, **more}
        else:
            made, model = made.set(key, number), {**model, key: number}
        older.append((made, model))
    for made, model in older:
        assert dict(made.items()) == {key: made[key] for key in made} == model
        assert sorted(made.keys()) == sorted(model)
        assert sorted(made.values()) == sorted(model.values())
        assert len(made) == len(model)
        assert made == kind(model)
        assert hash(made) == hash(kind(list(model.items())))


@KINDS
def test_what_it_has_not(kind) -> None:
    made = kind({"a": 1})
    assert ("a" in made, "b" in made, made == []) == (True, False, False)
    assert (made.get("b"), made.get("b", 7), made.get("a")) == (None, 7, 1)
    for ask in (lambda: made["b"], lambda: made.delete("b")):
        with pytest.raises(KeyError, match="b"):
            ask()
    assert made != {"a": 1}, "a dict is another thing"
    assert made != kind({"a": 2})


@KINDS
def test_the_value_that_it_has_makes_no_other_map(kind) -> None:
    value = object()
    made = kind({"a": value, "n": None})
    assert made.set("a", value) is made
    assert made.set("n", None) is made
    assert made.set("a", object()) is not made
    assert made.set("b", None) is not made


@KINDS
def test_a_mutation_leaves_its_map_and_ends_in_another(kind) -> None:
    made = kind({"a": 1, "b": 2})
    changing = made.mutate()
    del changing["a"]
    changing["c"] = 3
    assert ("a" in changing, changing["c"]) == (False, 3)
    assert (changing.get("a", 7), changing.get("a"), changing.get("b")) == (7, None, 2)
    with pytest.raises(KeyError, match="a"):
        del changing["a"]
    assert changing.finish() == kind({"b": 2, "c": 3})
    assert made == kind({"a": 1, "b": 2})


@KINDS
def test_it_travels_and_is_shown(kind) -> None:
    made = kind({"a": kind({1: b"x"})})
    assert pickle.loads(pickle.dumps(made)) == made
    assert repr(kind({"a": 1})).endswith("Map({'a': 1})")
    assert kind[str, int] is not None
