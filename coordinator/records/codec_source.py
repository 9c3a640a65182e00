"""Generator of the reader and the writer of one struct in one version.

The text is ordinary Python, one function with straight lines for each struct and version, made at
its first use and registered in `linecache`. Fields go in declaration order, tagged ones into the
section at the end; fixed-size neighbours are one precompiled Struct.
"""

import linecache
import struct
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, Final

from coordinator.records import primitives
from coordinator.records.schema import ArrayOf, Fields, FieldSpec, fields_of
from metadata.primitives import varint_bytes
from metadata.schema import BOOL, BYTES, INT8, INT16, INT32, INT64, STRING, UUID, Scalar

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any, list[bytes]], None]
BytesWriter = Callable[[Any], bytes]

_FIXED: Final = {BOOL: "?", INT8: "b", INT16: "h", INT32: "i", INT64: "q", UUID: "16s"}
_FLEXIBLE: Final = {STRING: "compact_string", BYTES: "compact_bytes"}
_PLAIN: Final = {STRING: "short_string", BYTES: "long_bytes"}


@cache
def compile_reader(cls: type[Fields], version: int, *, is_flexible: bool) -> Reader:
    """The function `read(buffer, position) -> (value, position after it)`.

    It raises IndexError or struct.error for bytes that are cut, CoordinatorRecordError for a null
    or a tagged field that does not fit, and UnicodeDecodeError.
    """
    function: Reader = _Source(cls, version, "read", is_flexible=is_flexible).compiled()
    return function


@cache
def compile_writer(cls: type[Fields], version: int, *, is_flexible: bool) -> Writer:
    """The function `write(value, parts)`, which appends the encoded pieces of the value."""
    function: Writer = _Source(cls, version, "write", is_flexible=is_flexible).compiled()
    return function


def compile_bytes_writer(
    cls: type[Fields], version: int, head: bytes, *, is_flexible: bool
) -> BytesWriter:
    """The function `write(value) -> bytes`; what it returns begins with `head`."""
    source = _Source(cls, version, "encode", is_flexible=is_flexible, head=head)
    function: BytesWriter = source.compiled()
    return function


class _Source:
    """The text of one function and the names that it uses."""

    def __init__(
        self,
        cls: type[Fields],
        version: int,
        what: str,
        *,
        is_flexible: bool,
        head: bytes = b"",
    ) -> None:
        self.head = head
        self.cls = cls
        self.version = version
        self.what = what
        self.is_flexible = is_flexible
        self.names: dict[str, Any] = dict(vars(primitives))
        self.codecs = _FLEXIBLE if is_flexible else _PLAIN

    def compiled(self) -> Any:
        name = f"{self.what}_{self.cls.__name__}_{self.version}"
        arguments, body = self.function()
        text = "\n".join([f"def {name}({arguments}):", *_indented(body)]) + "\n"
        filename = f"<coordinator {name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)  # noqa: S102 (text of our declarations)
        return self.names[name]

    def function(self) -> tuple[str, list[str]]:
        """Arguments and lines."""
        if self.what == "read":
            return "b, p", self.read_lines()
        if self.what == "write":
            return "r, out", self.write_lines()
        return "r", [f"out = [{self.head!r}]", *self.write_lines(), "return b''.join(out)"]

    def bind(self, stem: str, value: Any) -> str:
        """Bind a value to a name for the generated text, and return the name."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def label(self, spec: FieldSpec) -> str:
        return repr(f"{self.cls.__name__}.{spec.name}")

    def present(self, *, tagged: bool) -> list[FieldSpec]:
        found = [spec for spec in fields_of(self.cls) if spec.is_in_version(self.version)]
        return [spec for spec in found if spec.is_tagged is tagged]

    # ---- readers

    def read_lines(self) -> list[str]:
        lines = ["end = len(b)"]
        for is_fixed, run in groupby(self.present(tagged=False), key=_is_fixed):
            if is_fixed:
                lines += self.read_run(list(run))
            else:
                for spec in run:
                    lines += self.read_one(spec)
        if self.is_flexible:
            lines += self.read_tags()
        names = [spec.name for spec in fields_of(self.cls) if spec.is_in_version(self.version)]
        arguments = ", ".join(f"{name}={name}" for name in names)
        return [*lines, f"return {self.bind('cls', self.cls)}({arguments}), p"]

    def read_run(self, run: list[FieldSpec]) -> list[str]:
        packer = _packer(run)
        targets = "".join(f"{spec.name}, " for spec in run)
        unpack = self.bind("unpack", packer.unpack_from)
        return [f"{targets}= {unpack}(b, p)", f"p += {packer.size}"]

    def read_one(self, spec: FieldSpec) -> list[str]:
        """Lines that read one field of any type."""
        if _is_fixed(spec):
            return self.read_run([spec])
        kind = spec.rule.type
        if isinstance(kind, ArrayOf):
            lines = self.read_array(spec, kind)
        elif isinstance(kind, type):
            lines = self.read_struct(spec, kind)
        elif kind is STRING:
            return self.read_string(spec)
        else:
            lines = [f"{spec.name}, p = read_{self.codecs[kind]}(b, p)"]
        if not spec.rule.nullable:
            lines += [f"if {spec.name} is None:", f"    raise null_error({self.label(spec)})"]
        return lines

    def read_string(self, spec: FieldSpec) -> list[str]:
        """Lines that read a string without a call: most fields of most records are strings."""
        null = f"raise null_error({self.label(spec)})"
        if spec.rule.nullable:
            null = f"{spec.name} = None"
        if self.is_flexible:
            size = ["n = b[p]", "p += 1", "if n > 127:", "    n, p = unsigned_varint(b, p - 1)"]
            size.append("n -= 1")
        else:
            size = ["n = (b[p] << 8 | b[p + 1]) - ((b[p] & 128) << 9)", "p += 2"]
        return [
            *size,
            "if n < 0:",
            f"    {null}",
            "else:",
            "    after_text = p + n",
            "    if after_text > end:",
            "        raise cut_error(n, end - p)",
            f"    {spec.name} = b[p:after_text].decode()",
            "    p = after_text",
        ]

    def read_struct(self, spec: FieldSpec, kind: type[Fields]) -> list[str]:
        """Lines for a tagged struct that can be null: before it an unsigned varint, 0 for null."""
        assert spec.rule.nullable, f"{spec.name}: structs that cannot be null are not declared"
        assert spec.is_tagged, f"{spec.name}: nulls of untagged structs are another byte"
        read = self.bind("read", self.reader(kind))
        return [
            f"{spec.name} = None",
            "n, p = unsigned_varint(b, p)",
            "if n:",
            f"    {spec.name}, p = {read}(b, p)",
        ]

    def read_array(self, spec: FieldSpec, kind: ArrayOf) -> list[str]:
        size = "read_compact_size" if self.is_flexible else "read_long_size"
        if kind.element is INT32:
            item = "items, p = read_ints(b, p, n)"
            return [f"n, p = {size}(b, p, 4)", *self.unless_null(spec, [item])]
        if isinstance(kind.element, type):
            item = f"item, p = {self.bind('read', self.reader(kind.element))}(b, p)"
            checks = []
        else:
            item = f"item, p = read_{self.codecs[kind.element]}(b, p)"
            checks = ["if item is None:", f"    raise null_error({self.label(spec)})"]
        each = [item, *checks, "items.append(item)"]
        loop = ["items = []", "for _ in range(n):", *_indented(each)]
        return [f"n, p = {size}(b, p, 1)", *self.unless_null(spec, loop)]

    def unless_null(self, spec: FieldSpec, lines: list[str]) -> list[str]:
        done = [*lines, f"{spec.name} = tuple(items)"]
        return ["if n < 0:", f"    {spec.name} = None", "else:", *_indented(done)]

    def reader(self, kind: type[Fields]) -> Reader:
        return compile_reader(kind, self.version, is_flexible=self.is_flexible)

    def read_tags(self) -> list[str]:
        """Lines that read the tagged fields; those that are not known are skipped, as by Kafka."""
        tagged = self.present(tagged=True)
        lines = [f"{spec.name} = {self.bind('default', spec.default)}" for spec in tagged]
        each = [
            "tag, size = b[p], b[p + 1]",
            "p += 2",
            "if tag > 127 or size > 127:",
            "    tag, p, after = read_tag_header(b, p - 2)",
            "else:",
            "    after = p + size",
            "    if after > end:",
            "        raise cut_error(size, end - p)",
        ]
        for number, spec in enumerate(tagged):
            filled = ["if p != after:", f"    raise size_error({self.label(spec)})"]
            each.append(f"{'elif' if number else 'if'} tag == {spec.rule.tag}:")
            each += _indented([*self.read_one(spec), *filled])
        return [
            *lines,
            "n = b[p]",
            "p += 1",
            "if n:",
            "    n, p = unsigned_varint(b, p - 1)",
            "    for _ in range(n):",
            *_indented(_indented([*each, "p = after"])),
        ]

    # ---- writers

    def write_lines(self) -> list[str]:
        lines: list[str] = []
        for spec in fields_of(self.cls):
            if not spec.is_in_version(self.version) and not spec.rule.ignorable:
                lines += [
                    f"if r.{spec.name} != {self.bind('default', spec.default)}:",
                    f"    raise version_error({self.label(spec)}, {self.version})",
                ]
        for is_fixed, run in groupby(self.present(tagged=False), key=_is_fixed):
            if is_fixed:
                lines += self.write_run(list(run))
            else:
                for spec in run:
                    lines += self.write_one(spec)
        return lines + (self.write_tags() if self.is_flexible else [])

    def write_run(self, run: list[FieldSpec]) -> list[str]:
        lines = []
        for spec in run:
            if spec.rule.type is UUID:  # struct pads and cuts "16s" silently
                lines += [
                    f"if len(r.{spec.name}) != 16:",
                    f"    raise uuid_error({self.label(spec)})",
                ]
        values = ", ".join(f"r.{spec.name}" for spec in run)
        return [*lines, f"out.append({self.bind('pack', _packer(run).pack)}({values}))"]

    def write_one(self, spec: FieldSpec, *, target: str = "out") -> list[str]:
        """Lines that append one field of any type to a list."""
        if _is_fixed(spec):
            return [line.replace("out.", f"{target}.") for line in self.write_run([spec])]
        name = f"r.{spec.name}"
        kind = spec.rule.type
        if isinstance(kind, ArrayOf):
            null = b"\0" if self.is_flexible else b"\xff\xff\xff\xff"
            lines = self.write_array(name, kind, target)
        elif isinstance(kind, type):
            null = b"\0"
            write = self.bind("write", self.writer(kind))
            lines = [f"{target}.append(b'\\1')", f"{write}({name}, {target})"]
        elif kind is STRING:
            null = b"\0" if self.is_flexible else b"\xff\xff"
            size = "compact_size(len(text))" if self.is_flexible else "pack_short(len(text))"
            lines = [f"text = {name}.encode()", f"{target}.append({size} + text)"]
        else:
            null = b"\0" if self.is_flexible else b"\xff" * 4
            lines = [f"{target}.append({self.codecs[kind]}({name}))"]
        missing = (
            f"{target}.append({null!r})"
            if spec.rule.nullable
            else f"raise null_error({self.label(spec)})"
        )
        return [f"if {name} is None:", f"    {missing}", "else:", *_indented(lines)]

    def write_array(self, name: str, kind: ArrayOf, target: str) -> list[str]:
        size = "compact_size" if self.is_flexible else "long_size"
        lines = [f"{target}.append({size}(len({name})))"]
        if kind.element is INT32:
            return [*lines, f"{target}.append(ints({name}))"]
        if isinstance(kind.element, type):
            each = f"{self.bind('write', self.writer(kind.element))}(item, {target})"
        else:
            each = f"{target}.append({self.codecs[kind.element]}(item))"
        return [*lines, f"for item in {name}:", f"    {each}"]

    def writer(self, kind: type[Fields]) -> Writer:
        return compile_writer(kind, self.version, is_flexible=self.is_flexible)

    def write_tags(self) -> list[str]:
        """Lines that write the tagged fields that differ from their defaults."""
        tagged = sorted(self.present(tagged=True), key=_tag_of)
        assert len(tagged) <= 127, "their number is one byte"
        if not tagged:
            return ["out.append(b'\\0')"]
        lines = ["tags = [b'\\0']"]
        for spec in tagged:
            lines += [
                f"if r.{spec.name} != {self.bind('default', spec.default)}:",
                *_indented(self.write_tag(spec)),
            ]
        return [*lines, "tags[0] = varint_bytes(len(tags) - 1)", "out += tags"]

    def write_tag(self, spec: FieldSpec) -> list[str]:
        """Lines that append one tagged field to `tags`, with its number and its size."""
        tag = varint_bytes(_tag_of(spec))
        if _is_fixed(spec):
            (*checks, packed) = self.write_run([spec])
            head = tag + varint_bytes(_packer([spec]).size)
            return [*checks, packed.replace("out.append(", f"tags.append({head!r} + ")]
        return [
            "item = []",
            *self.write_one(spec, target="item"),
            f"tags.append(tagged_bytes({tag!r}, item))",
        ]


def _tag_of(spec: FieldSpec) -> int:
    assert spec.rule.tag is not None, f"{spec.name} has no tag"
    return spec.rule.tag


def _is_fixed(spec: FieldSpec) -> bool:
    return spec.rule.type in _FIXED


def _packer(run: list[FieldSpec]) -> struct.Struct:
    codes = []
    for spec in run:
        assert isinstance(spec.rule.type, Scalar), f"{spec.name} is no scalar"
        codes.append(_FIXED[spec.rule.type])
    return struct.Struct(">" + "".join(codes))


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
