"""Generator of the reader and writer of one struct in one version.

The text is ordinary Python, registered in `linecache` so that stack traces show it;
`source_of(PartitionRecord, 2)` returns it. Runs of fixed-size fields become one precompiled Struct.
Untagged fields go in declaration order, tagged ones into the section at the end in tag order.
"""

import linecache
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from metadata import primitives
from metadata.array_block import ArrayBlock
from metadata.primitives import varint_bytes
from metadata.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    ArrayOf,
    FieldSpec,
    Scalar,
    WireStruct,
    fields_of,
    is_in_version,
)

_FIXED: Final[dict[Scalar, str]] = {
    BOOL: "B",
    INT8: "b",
    INT16: "h",
    UINT16: "H",
    INT32: "i",
    INT64: "q",
    FLOAT64: "d",
    UUID: "16s",
}
_SHORT: Final = 128
_ID_BYTES: Final[dict[Scalar | type[WireStruct], int]] = {INT32: 4, UUID: 16}
_NAMESPACE: Final[dict[str, Any]] = {
    name: getattr(primitives, name)
    for name in (
        "ints_bytes",
        "cut_error",
        "garbage_error",
        "null_error",
        "raw_bytes",
        "read_array_size",
        "read_bytes",
        "read_ints",
        "read_string",
        "read_tag_header",
        "read_uuids",
        "size_error",
        "string_bytes",
        "tags_bytes",
        "unsigned_varint",
        "uuids_bytes",
        "varint_bytes",
        "version_error",
    )
}


_FRAME_BYTES: Final = 3
"""Length of frame version, api key and version, one byte each in every known record."""
_HOPS: Final = 2
"""Number of arrays of a block whose length is read before the others are assumed to be empty."""


@cache
def compile_reader(cls: type[WireStruct], version: int) -> Callable[..., Any]:
    """The function `read(buffer, position, end) -> (value, position after it)`."""
    return _compile(_Source(cls, version, "read"))


@cache
def compile_decoder(cls: type[WireStruct], version: int) -> Callable[[bytes, int], Any]:
    """The function `decode(buffer, end) -> record` of a framed value: `read` after the frame."""
    return _compile(_Source(cls, version, "decode"))


@cache
def compile_writer(cls: type[WireStruct], version: int) -> Callable[..., Any]:
    """The function `write(value, parts)`, which appends the encoded pieces of the value."""
    return _compile(_Source(cls, version, "write"))


def source_of(cls: type[WireStruct], version: int) -> str:
    """The generated text of reader and writer, for human readers."""
    return "\n".join("\n".join(_Source(cls, version, what).text()) for what in ("read", "write"))


class _Source:
    """The text of one function and the names that it uses."""

    def __init__(self, cls: type[WireStruct], version: int, what: str) -> None:
        self.cls = cls
        self.version = version
        self.what = what
        self.names: dict[str, Any] = dict(_NAMESPACE)
        self.lines: list[str] = []

    @property
    def function(self) -> str:
        return f"{self.what}_{self.cls.__name__}_{self.version}"

    def text(self) -> list[str]:
        if not self.lines:
            body = _writer_lines(self) if self.what == "write" else _reader_lines(self)
            arguments = {"read": "b, p, end", "decode": f"b, end, p={_FRAME_BYTES}"}
            self.lines = [f"def {self.function}({arguments.get(self.what, 'r, out')}):"]
            self.lines += [f"    {line}" for line in body]
        return self.lines

    def bind(self, stem: str, value: Any) -> str:
        """Bind a value to a name for the generated text, and return the name."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def untagged(self) -> list[FieldSpec]:
        return [spec for spec in self._present() if spec.tag is None]

    def tagged(self) -> list[FieldSpec]:
        present = [spec for spec in self._present() if spec.tag is not None]
        return sorted(present, key=lambda spec: spec.tag or 0)

    def _present(self) -> list[FieldSpec]:
        return [spec for spec in fields_of(self.cls) if is_in_version(spec, self.version)]

    def label(self, spec: FieldSpec) -> str:
        return f"{self.cls.__name__}.{spec.name}"


def _compile(source: _Source) -> Callable[..., Any]:
    text = "\n".join(source.text()) + "\n"
    filename = f"<metadata {source.function}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), source.names)  # noqa: S102 (text of our declarations)
    function: Callable[..., Any] = source.names[source.function]
    return function


# ---- readers


def _reader_lines(source: _Source) -> list[str]:
    lines: list[str] = []
    for run in _runs(source.untagged()):
        if _is_fixed(run[0]):
            lines += _read_fixed_run(source, run)
        elif _is_id_array(run[0]):
            lines += _read_id_arrays(source, run)
        else:
            lines += _read_one(source, run[0])
    tagged = source.tagged()
    arguments = [f"{spec.name}={spec.name}" for spec in source.untagged()]
    lines += ["n = b[p]", "p += 1", "if not n:"]  # most records have no tagged field
    lines += [f"    {line}" for line in _read_done(source, arguments)]
    lines += [f"{spec.name} = {source.bind('default', spec.default)}" for spec in tagged]
    lines += _read_tags(source, tagged)
    arguments += [f"{spec.name}={spec.name}" for spec in tagged]
    known = [*arguments, "unknown_tags=tuple(sorted(unknown.items()))"]
    lines += ["if unknown:", *(f"    {line}" for line in _read_done(source, known))]
    return lines + _read_done(source, arguments)


def _read_done(source: _Source, arguments: Sequence[str]) -> list[str]:
    """Lines that return value and position, or for `decode` the record if nothing follows it."""
    made = f"{source.bind('cls', source.cls)}({', '.join(arguments)})"
    if source.what == "read":
        return [f"return {made}, p"]
    name = f"{source.cls.__name__} version {source.version}"
    return ["if p != end:", f"    raise garbage_error({name!r}, end - p)", f"return {made}"]


def _read_fixed_run(source: _Source, run: list[FieldSpec]) -> list[str]:
    packer = struct.Struct(">" + "".join(_FIXED[_scalar(spec)] for spec in run))
    unpack = source.bind("unpack", packer.unpack_from)
    targets = ", ".join(spec.name for spec in run)
    comma = "," if len(run) == 1 else ""
    lines = [f"{targets}{comma} = {unpack}(b, p)", f"p += {packer.size}"]
    lines += [f"{spec.name} = {spec.name} != 0" for spec in run if spec.type is BOOL]
    return lines


def _read_id_arrays(source: _Source, run: list[FieldSpec]) -> list[str]:
    """Lines that look up adjacent arrays of ids by their bytes, as one block.

    `q` moves from length to length, assuming one byte for each, over two arrays, and assumes the
    others to be empty, as they nearly always are (replicas are added and removed only in
    reassignments); if no block is found, over all. A wrong assumption does no harm: bytes equal to
    a known block are that block, and anything else is decoded.
    """
    block = ArrayBlock(tuple((source.label(spec), _id_bytes(spec)) for spec in run))
    known, read = source.bind("known", block.known.get), source.bind("read", block.read)
    hops = []
    start = "p"
    for spec in run:
        size = _id_bytes(spec)
        hops.append(f"q = {start} + {size} * b[{start}] - {size - 1}")
        start = "q"
    lines = ["try:", *(f"    {hop}" for hop in hops[:_HOPS])]
    empty = len(run) - _HOPS
    if empty > 0:
        lines += [
            f"    found = {known}(b[p : q + {empty}])",
            "    if found is None:",
            *(f"        {hop}" for hop in hops[_HOPS:]),
            f"        found = {known}(b[p:q])",
            "    else:",
            f"        q += {empty}",
        ]
    else:
        lines.append(f"    found = {known}(b[p:q])")
    targets = ", ".join(spec.name for spec in run) + ("," if len(run) == 1 else "")
    return [
        *lines,
        "except IndexError:",
        "    found = None",
        "if found is None:",
        f"    found, p = {read}(b, p, end)",
        "else:",
        "    p = q",
        f"{targets} = found",
    ]


def _read_one(source: _Source, spec: FieldSpec) -> list[str]:
    """Lines that read one field that is not part of a fixed run, or one tagged field."""
    name = spec.name
    if isinstance(spec.type, ArrayOf):
        lines = _read_array(source, spec)
    elif spec.type is STRING:
        lines = [f"{name}, p = read_string(b, p, end)"]
    elif spec.type is BYTES:
        lines = [f"{name}, p = read_bytes(b, p, end)"]
    elif isinstance(spec.type, type):
        read = source.bind("read", compile_reader(spec.type, source.version))
        return [f"{name}, p = {read}(b, p, end)"]
    else:
        return _read_fixed_run(source, [spec])
    if not spec.nullable:
        lines += [f"if {name} is None:", f"    raise null_error({source.label(spec)!r})"]
    return lines


def _read_array(source: _Source, spec: FieldSpec) -> list[str]:
    assert isinstance(spec.type, ArrayOf)
    element = spec.type.element
    name = spec.name
    if element is INT32:
        return [f"{name}, p = read_ints(b, p, end)"]
    if element is UUID:
        return [f"{name}, p = read_uuids(b, p, end)"]
    lines = ["n, p = read_array_size(b, p, end, 1)", "if n < 0:", f"    {name} = None", "else:"]
    lines += ["    items = []", "    for _ in range(n):"]
    if element is STRING:
        lines += [
            "        item, p = read_string(b, p, end)",
            "        if item is None:",
            f"            raise null_error({source.label(spec)!r})",
        ]
    else:
        assert isinstance(element, type), f"no array of {element} is declared"
        read = source.bind("read", compile_reader(element, source.version))
        lines.append(f"        item, p = {read}(b, p, end)")
    return [*lines, "        items.append(item)", f"    {name} = tuple(items)"]


def _read_tags(source: _Source, tagged: list[FieldSpec]) -> list[str]:
    """Lines that read the tagged fields of a record; the bytes of unknown ones are kept."""
    lines = ["if n > 127:", "    n, p = unsigned_varint(b, p - 1)", "unknown = {}"]
    lines += [
        "for _ in range(n):",
        "    tag = b[p]",
        "    after = p + 2 + b[p + 1]",
        "    if tag < 128 and after < p + 130:",
        "        p += 2",
        "        if after > end:",
        "            raise cut_error(tag, after - p, end - p)",
        "    else:",
        "        tag, p, after = read_tag_header(b, p, end)",
    ]
    keyword = "if"
    for spec in tagged:
        lines.append(f"    {keyword} tag == {spec.tag}:")
        lines += [f"        {line}" for line in _read_tagged(source, spec)]
        keyword = "elif"
    if tagged:
        lines += ["    else:", "        unknown[tag] = b[p:after]", "        p = after"]
    else:
        lines += ["    unknown[tag] = b[p:after]", "    p = after"]
    return lines


def _read_tagged(source: _Source, spec: FieldSpec) -> list[str]:
    """Lines that read a tagged field up to `after`; ids are looked up by their bytes."""
    filled = ["if p != after:", f"    raise size_error({source.label(spec)!r}, {spec.tag})"]
    if not _has_ids(spec):
        return [*_read_one(source, spec), *filled]
    block = ArrayBlock(((source.label(spec), _id_bytes(spec)),), is_nullable=spec.nullable)
    known, read = source.bind("known", block.known.get), source.bind("read", block.read)
    return [
        f"found = {known}(b[p:after])",
        "if found is None:",
        f"    found, p = {read}(b, p, end)",
        *(f"    {line}" for line in filled),
        "else:",
        "    p = after",
        f"{spec.name}, = found",
    ]


# ---- writers


def _writer_lines(source: _Source) -> list[str]:
    lines: list[str] = []
    for spec in fields_of(source.cls):
        if not is_in_version(spec, source.version):
            default = source.bind("default", spec.default)
            lines += [
                f"if {_differs(spec, default)}:",
                f"    raise version_error({source.label(spec)!r}, {source.version})",
            ]
    for run in _runs(source.untagged()):
        if _is_fixed(run[0]):
            lines += _write_fixed_run(source, run)
        else:
            for spec in run:
                lines += _write_one(source, spec)
    return lines + _write_tags(source)


def _differs(spec: FieldSpec, default: str) -> str:
    return f"r.{spec.name} is not None" if spec.default is None else f"r.{spec.name} != {default}"


def _write_fixed_run(source: _Source, run: list[FieldSpec]) -> list[str]:
    packer = struct.Struct(">" + "".join(_FIXED[_scalar(spec)] for spec in run))
    pack = source.bind("pack", packer.pack)
    lines = []
    for spec in run:
        # struct pads and cuts "16s" silently.
        if spec.type is UUID:
            lines += [
                f"if len(r.{spec.name}) != 16:",
                f"    raise ValueError('{spec.name} is not 16 bytes long')",
            ]
    values = ", ".join(f"r.{spec.name}" for spec in run)
    return [*lines, f"out.append({pack}({values}))"]


def _write_one(source: _Source, spec: FieldSpec) -> list[str]:
    """Lines that append one variable-size field; null is a single zero byte."""
    name = f"r.{spec.name}"
    if isinstance(spec.type, type):
        return [f"{source.bind('write', compile_writer(spec.type, source.version))}({name}, out)"]
    expression, before = _payload(source, spec)
    if spec.nullable:
        return [
            f"if {name} is None:",
            "    out.append(b'\\x00')",
            "else:",
            *(f"    {line}" for line in before),
            f"    out.append({expression})",
        ]
    return [
        f"if {name} is None:",
        f"    raise null_error({source.label(spec)!r})",
        *before,
        f"out.append({expression})",
    ]


def _payload(source: _Source, spec: FieldSpec) -> tuple[str, list[str]]:
    """An expression for the encoded, non-null field and the lines that must run before it."""
    name = f"r.{spec.name}"
    if spec.type is STRING:
        return f"string_bytes({name})", []
    if spec.type is BYTES:
        return f"raw_bytes({name})", []
    if isinstance(spec.type, ArrayOf):
        return _array_payload(source, spec)
    packer = struct.Struct(">" + _FIXED[_scalar(spec)])
    return f"{source.bind('pack', packer.pack)}({name})", []


def _array_payload(source: _Source, spec: FieldSpec) -> tuple[str, list[str]]:
    assert isinstance(spec.type, ArrayOf)
    name = f"r.{spec.name}"
    element = spec.type.element
    if element is INT32:
        return f"ints_bytes({name})", []
    if element is UUID:
        return f"uuids_bytes({name})", []
    before = [f"items = [varint_bytes(len({name}) + 1)]", f"for item in {name}:"]
    if element is STRING:
        before.append("    items.append(string_bytes(item))")
    else:
        assert isinstance(element, type), f"no array of {element} is declared"
        write = source.bind("write", compile_writer(element, source.version))
        before.append(f"    {write}(item, items)")
    return "b''.join(items)", before


def _write_tags(source: _Source) -> list[str]:
    """Lines that write the tagged fields that differ from their defaults, and the unknown ones."""
    tagged = source.tagged()
    if not tagged:
        return ["out.append(tags_bytes((), r.unknown_tags) if r.unknown_tags else b'\\x00')"]
    lines = ["known = []", "tags = []"]
    for spec in tagged:
        default = source.bind("default", spec.default)
        lines.append(f"if {_differs(spec, default)}:")
        if spec.default is not None and spec.nullable:
            raise AssertionError(f"{source.label(spec)}: nullable tagged fields default to null")
        expression, before = _payload(source, spec)
        if not spec.nullable and (isinstance(spec.type, ArrayOf) or spec.type in (STRING, BYTES)):
            lines += [
                f"    if r.{spec.name} is None:",
                f"        raise null_error({source.label(spec)!r})",
            ]
        lines += [f"    {line}" for line in before]
        assert spec.tag is not None
        assert spec.tag < _SHORT, f"{source.label(spec)}: tags of Kafka's records are small"
        lines += [
            f"    item = {expression}",
            f"    known += ({varint_bytes(spec.tag)!r}, varint_bytes(len(item)), item)",
            f"    tags.append({spec.tag})",
        ]
    return [
        *lines,
        "if r.unknown_tags:",
        "    out.append(tags_bytes([*zip(tags, known[2::3])], r.unknown_tags))",
        "else:",
        "    out.append(varint_bytes(len(tags)))",
        "    out += known",
    ]


# ---- both


def _runs(specs: list[FieldSpec]) -> list[list[FieldSpec]]:
    """Groups of adjacent fixed-size fields or adjacent arrays of ids; other fields alone."""
    runs: list[list[FieldSpec]] = []
    for spec in specs:
        kinds = (_is_fixed(spec), _is_id_array(spec))
        if runs and any(kinds) and kinds == (_is_fixed(runs[-1][0]), _is_id_array(runs[-1][0])):
            runs[-1].append(spec)
        else:
            runs.append([spec])
    return runs


def _is_fixed(spec: FieldSpec) -> bool:
    return isinstance(spec.type, Scalar) and spec.type in _FIXED


def _is_id_array(spec: FieldSpec) -> bool:
    return _has_ids(spec) and not spec.nullable


def _has_ids(spec: FieldSpec) -> bool:
    return isinstance(spec.type, ArrayOf) and spec.type.element in _ID_BYTES


def _id_bytes(spec: FieldSpec) -> int:
    assert isinstance(spec.type, ArrayOf), f"{spec.name} is no array"
    assert isinstance(spec.type.element, Scalar), f"{spec.name} has structs"
    return _ID_BYTES[spec.type.element]


def _scalar(spec: FieldSpec) -> Scalar:
    assert isinstance(spec.type, Scalar), f"{spec.name} is no scalar"
    return spec.type
