"""Reaches through two objects: `self._part.inner.method()`, and what hides them in a local name.

A class uses its own parts: it is built with them, or asks one of them a question. A value is no
part: what is frozen when it is made can be read to any depth. Types are not looked up, a value is
known by the name of its attribute (`VALUES`), as the house names them alike everywhere.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

VALUES: Final = frozenset(
    {
        "codec",  # an enum member
        "committed",  # the image of what is committed
        "config",
        "context",  # of a request: who asks, and by when
        "definition",  # of a configuration key
        "epoch_entries",  # of a log: epochs with their first offsets
        "error_code",  # an enum member
        "group",  # as its records tell it
        "header",
        "image",
        "incarnation",  # of a broker: its ids
        "latest",  # the image with what is not committed yet
        "leader",  # leader and epoch
        "provenance",  # of an image
        "settings",  # of a simulated run
        "snapshot_id",
    }
)
"""Attributes that hold an immutable value, with or without a leading underscore."""
LOOKED_AT: Final = frozenset({"kernel", "raft"})
"""Attributes that go with the process of a simulated machine: nobody can be built with them."""
PASSED_MAX: Final = 1

Function = ast.FunctionDef | ast.AsyncFunctionDef
Names = tuple[str, ...]


def reaches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each attribute that is reached through two objects or more."""
    functions: list[Function] = []
    modules = imported(outside(tree, functions))
    for function in functions:
        nodes = list(ast.walk(function))
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        inner = {id(node.value) for node in attributes}
        no_parts = modules | imported(nodes)
        local = aliases(nodes)
        for node in attributes:
            names = () if id(node) in inner else chain(node, local)
            if names and names[0] not in no_parts and passed(names) > PASSED_MAX:
                yield node.lineno, ".".join(names)


def outside(node: ast.AST, functions: list[Function]) -> Iterator[ast.AST]:
    """Everything that is in no function; appends the functions and methods met."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            functions.append(child)
        else:
            yield child
            yield from outside(child, functions)


def imported(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names of modules, and of what is taken from them: their attributes are no parts."""
    return frozenset(
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )


def aliases(nodes: list[ast.AST]) -> dict[str, Names]:
    """Local names of attributes: `log` is `self._writer.log` after `log = self._writer.log`.

    Those that are set at one place: what stands for several objects is none of them. Of loops only
    those over what a class has: other loops are over the rows of messages, which are values.
    """
    names = (node for node in nodes if isinstance(node, ast.Name))
    times_set = Counter(name.id for name in names if isinstance(name.ctx, ast.Store))
    found: dict[str, Names] = {}
    for node in nodes:
        is_loop = isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
        for target, value in bindings(node):
            if isinstance(target, ast.Name) and isinstance(value, ast.Attribute):
                source = chain(value, found)
                if times_set[target.id] == 1 and (source[0] == "self" or not is_loop):
                    found[target.id] = source
    return found


def bindings(node: ast.AST) -> Iterator[tuple[ast.expr | None, ast.expr | None]]:
    """Targets with their values, None for none; those of `a, b = c, d` one by one.

    The value of a loop's target is the iterated: an element counts as its collection.
    """
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                yield from pairs(target, value)
        case ast.AnnAssign(target, _, value) | ast.NamedExpr(target, value):
            yield target, value
        case (
            ast.For(target, value) | ast.AsyncFor(target, value) | ast.comprehension(target, value)
        ):
            yield target, value
        case ast.withitem(value, target):
            yield target, value


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """A target with its value, those of tuples one by one."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def chain(node: ast.expr, local: dict[str, Names]) -> Names:
    """The names of an attribute from its root on; a root that is no name is empty."""
    names: list[str] = []
    while isinstance(node, ast.Attribute | ast.NamedExpr):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        node = node.value
    root = local.get(node.id, (node.id,)) if isinstance(node, ast.Name) else ("",)
    return (*root, *reversed(names))


def passed(names: Names) -> int:
    """Number of objects between the root and the last name; fields of a value do not count."""
    count = 0
    for name in names[1:-1]:
        if name.lstrip("_") in VALUES:
            break
        count = 0 if name in LOOKED_AT else count + 1
    return count
