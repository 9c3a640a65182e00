"""Conversion between Arrow's and Spark's schemas, and check of `.schema(...)`."""

from typing import Any

import pyarrow as pa

from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import Options
from pipeline.core.records.schema import CORRUPT_BATCH, CORRUPT_TYPE, check_names, columns_of

_DDL = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
}


def ddl(schema: pa.Schema) -> str:
    """The schema in Spark's DDL."""
    return ", ".join(f"`{field.name}` {ddl_type(field.type)}" for field in schema)


def ddl_type(type_: pa.DataType) -> str:
    """One Arrow type in Spark's DDL."""
    if pa.types.is_list(type_):
        return f"array<{ddl_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        fields = ",".join(f"{field.name}:{ddl_type(field.type)}" for field in type_)
        return f"struct<{fields}>"
    return "timestamp" if pa.types.is_timestamp(type_) else _DDL[type_]


def wanted_schema(given: Any, options: Options) -> pa.Schema:
    """Arrow schema of the columns of a Spark schema.

    Raises:
        BadInputError: a column that does not exist or has another type in the source.
    """
    known = columns_of(options.decode)
    names = [field.name for field in given.fields if field.name != CORRUPT_BATCH]
    if len(names) < len(given.fields) and options.mode != "PERMISSIVE":
        raise BadInputError(f"column {CORRUPT_BATCH} needs mode=PERMISSIVE, not {options.mode}")
    if names or not given.fields:
        check_names(names, options.decode)
    fields = []
    for field in given.fields:
        type_ = CORRUPT_TYPE if field.name == CORRUPT_BATCH else known[field.name]
        expected, asked = ddl_type(type_), field.dataType.simpleString()
        if expected != asked:
            raise BadInputError(f"column {field.name} is {expected}, not {asked}")
        fields.append(pa.field(field.name, type_, nullable=field.nullable))
    return pa.schema(fields)
