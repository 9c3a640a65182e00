"""Hypothesis strategies derived from the record declarations."""

from hypothesis import strategies as st

from metadata.records import RECORD_TYPES
from metadata.schema import ArrayOf, Scalar, fields_of

_INT_BITS = {Scalar.INT8: 8, Scalar.INT16: 16, Scalar.INT32: 32, Scalar.INT64: 64}
_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_SCALARS = {
    Scalar.BOOL: st.booleans(),
    Scalar.UINT16: st.integers(0, 65535),
    Scalar.FLOAT64: st.floats(allow_nan=False),
    Scalar.UUID: st.binary(min_size=16, max_size=16),
    Scalar.STRING: _TEXT,
    Scalar.BYTES: st.binary(max_size=8),
    **{
        scalar: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        for scalar, bits in _INT_BITS.items()
    },
}


def contents(type_, version):
    """Values of a field type."""
    if isinstance(type_, ArrayOf):
        return st.lists(contents(type_.element, version), max_size=3).map(tuple)
    if isinstance(type_, type):
        return structs(type_, version)
    return _SCALARS[type_]


def structs(cls, version):
    """Values of a record or struct class that this version can carry."""
    taken = {spec.tag for spec in fields_of(cls)}
    tags = st.integers(0, 500).filter(lambda tag: tag not in taken)
    unknown = st.dictionaries(tags, st.binary(max_size=200), max_size=2)
    given = {"unknown_tags": unknown.map(lambda found: tuple(sorted(found.items())))}
    for spec in fields_of(cls):
        if version < spec.since:
            given[spec.name] = st.just(spec.default)
        else:
            strategy = contents(spec.type, version)
            given[spec.name] = st.none() | strategy if spec.nullable else strategy
    return st.builds(cls, **given)


def records_with_version():
    """Any record with a version that can carry it."""
    pairs = [
        (cls, version)
        for cls in RECORD_TYPES.values()
        for version in range(cls.versions[0], cls.versions[1] + 1)
    ]
    return st.sampled_from(pairs).flatmap(
        lambda pair: st.tuples(structs(pair[0], pair[1]), st.just(pair[1]))
    )
