"""Mutations of a module: every one-place change of its syntax tree that a test should notice.

Comparisons, boolean and arithmetic operators, numbers and booleans, conditions and whole
statements are changed. Parts without behaviour, or whose change no test need notice, are not:
docstrings and other texts, annotations, options of classes, decorators, assertions (a weaker one
fails no test as long as the code is right), and the contents of f-strings.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Pow: ast.Mult,
}
EQUALITIES: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
"""Comparisons whose other form is their negation."""

NO_BEHAVIOUR: Final = frozenset(
    {"annotation", "returns", "decorator_list", "type_params", "pattern", "bases"}
)
"""Fields of nodes without production behaviour, or that run only once at definition."""
CONDITIONS: Final = frozenset({"test", "guard", "ifs"})
"""Fields whose value decides what happens next."""
NO_BEHAVIOUR_NODES: Final = (
    ast.Assert,
    ast.JoinedStr,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
)
SEQUENCES: Final = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)
DECLARATIONS: Final = frozenset({"__slots__", "__all__", "__match_args__"})

Place = tuple[Any, Any]
"""A node and the name of its field, or a list and an index."""


@dataclass(frozen=True, slots=True)
class Point:
    """One mutation; `id` stays valid as long as the function and the changed text stay."""

    module: str  # path below the root: raft/core.py
    function: str  # qualified name, "" at the level of the module
    kind: str
    source: str  # text of the changed node
    mutation: str  # text that replaces it; "" when a statement is removed
    ordinal: int  # position among those equal in everything above
    line: int
    statement: int  # first line of the enclosing statement, by which the trace is kept
    at_import: bool  # runs when the module is imported, not when a test calls it
    names: tuple[str, ...]  # names that the statement defines, if it runs at import

    @property
    def id(self) -> str:
        """Identity that does not depend on other lines of the module."""
        return (
            f"{self.module}::{self.function}::{self.kind}::"
            f"{self.source} -> {self.mutation}::{self.ordinal}"
        )


@dataclass(frozen=True, slots=True)
class _Scope:
    """Function and statement that the walk is in."""

    function: str = ""
    at_import: bool = True
    statement: int = 0
    names: tuple[str, ...] = ()
    assigned: frozenset[str] = frozenset()  # names that the function assigns more than once


@dataclass(frozen=True, slots=True)
class _Change:
    """A mutation of one tree, not yet carried out."""

    kind: str
    node: ast.AST
    new: ast.AST | None
    place: Place
    scope: _Scope

    def carry_out(self) -> None:
        """Put the new node in the place of the old one."""
        new = ast.copy_location(self.new or ast.Pass(), self.node)
        container, key = self.place
        if isinstance(container, list):
            container[key] = new
        else:
            setattr(container, key, new)


def points(module: str, source: str) -> list[Point]:
    """Every mutation of a module, in the order of its text."""
    return [point for point, _ in _numbered(module, ast.parse(source))]


def mutated(point: Point, source: str) -> ast.Module:
    """Return the module with one mutation carried out; line numbers stay.

    Raises:
        KeyError: the module has no such mutation (any more).
    """
    tree = ast.parse(source)
    for found, change in _numbered(point.module, tree):
        if found.id == point.id:
            change.carry_out()
            return ast.fix_missing_locations(tree)
    raise KeyError(point.id)


def _numbered(module: str, tree: ast.Module) -> list[tuple[Point, _Change]]:
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for change in list(_changes_below(tree, (None, None), _Scope())):
        source = ast.unparse(change.node)
        mutation = "" if change.new is None else ast.unparse(change.new)
        key = (change.scope.function, change.kind, source, mutation)
        point = Point(
            module=module,
            function=change.scope.function,
            kind=change.kind,
            source=source,
            mutation=mutation,
            ordinal=seen[key],
            line=getattr(change.node, "lineno", change.scope.statement),
            statement=change.scope.statement,
            at_import=change.scope.at_import,
            names=change.scope.names,
        )
        seen[key] += 1
        found.append((point, change))
    return found


def _changes_below(node: ast.AST, place: Place, scope: _Scope) -> Iterator[_Change]:
    """Yield the changes of a node, then those of its children."""
    if isinstance(node, NO_BEHAVIOUR_NODES) or _is_declaration(node):
        return
    if isinstance(node, ast.stmt):
        scope = _at(node, scope)
    for kind, new in _changes(node, scope):
        yield _Change(kind, node, new, place, scope)
    inner = _inside(node, scope)
    for field, child, child_place in _children(node):
        yield from _changes_below(child, child_place, inner if field == "body" else scope)
        if field in CONDITIONS and isinstance(child, ast.expr):
            yield from _negation(child, child_place, scope)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST, Place]]:
    """Yield the children of a node that have behaviour: field, child and place."""
    for field, value in ast.iter_fields(node):
        if field in NO_BEHAVIOUR or (field == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        if isinstance(value, ast.AST):
            yield field, value, (node, field)
        elif isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, ast.AST):
                    yield field, child, (value, index)


def _is_declaration(node: ast.AST) -> bool:
    """Return True for texts, names of slots, code for type checkers, and `zip(strict=True)`."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name in DECLARATIONS:
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg="strict", value=ast.Constant()):
            return True
        case _:
            return False


def _at(node: ast.stmt, scope: _Scope) -> _Scope:
    """The scope at a statement."""
    scope = replace(scope, statement=node.lineno)
    if not scope.at_import:
        return scope
    names = [name.id for name in _targets(node) if isinstance(name, ast.Name)]
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        names.append(node.name)
    return replace(scope, names=(*scope.names, *names))


def _inside(node: ast.AST, scope: _Scope) -> _Scope:
    """The scope of a node's body."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return scope
    function = f"{scope.function}.{node.name}" if scope.function else node.name
    if isinstance(node, ast.ClassDef):
        return replace(scope, function=function)
    counts: Counter[str] = Counter()
    for inner in _own_statements(node):
        counts.update(name.id for name in _targets(inner) if isinstance(name, ast.Name))
        if isinstance(inner, ast.Nonlocal):
            counts.update(inner.names)  # bound outside: one assignment here is another
    arguments = [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
    counts.update(name for name in arguments if counts[name])
    again = frozenset(name for name, count in counts.items() if count > 1)
    return replace(scope, function=function, at_import=False, names=(), assigned=again)


def _own_statements(function: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a function, without those of the functions and classes inside."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own_statements(child)


def _targets(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.AugAssign(target=target):
            return [target]
        case _:
            return []


def _changes(node: ast.AST, scope: _Scope) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield kind and result of each change at the node itself."""
    match node:
        case ast.Compare():
            yield from (("comparison", new) for new in _comparisons(node))
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "boolean", ast.BoolOp(other, node.values)
            yield from (("condition", new) for new in _shorter(node))
        case ast.BinOp() if type(node.op) in ARITHMETIC and _is_arithmetic(node, scope):
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "sign" if isinstance(node.op, ast.USub) else "condition", node.operand
        case ast.Constant(value=bool() as truth):
            yield "constant", ast.Constant(not truth)
        case ast.Constant(value=int() | float() as number):
            yield "constant", ast.Constant(number + 1)
        case ast.stmt():
            yield from _statement_changes(node, scope)
        case _:
            pass


def _statement_changes(node: ast.stmt, scope: _Scope) -> Iterator[tuple[str, ast.AST | None]]:
    match node:
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            other = ARITHMETIC[type(node.op)]()
            yield "arithmetic", ast.AugAssign(node.target, other, node.value)
            yield "statement", None
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Delete():
            yield "statement", None
        case ast.Break() | ast.Continue():
            yield "statement", None
        case ast.Return(value=ast.Constant(value=None | bool())) | ast.Return(value=None):
            pass
        case ast.Return():
            yield "return", ast.Return(ast.Constant(None))
        case ast.Assign() | ast.AnnAssign() if not scope.at_import:
            targets = _targets(node)
            if targets and all(_can_stay_unset(target, scope) for target in targets):
                yield "statement", None
        case _:
            pass


def _can_stay_unset(target: ast.expr, scope: _Scope) -> bool:
    """Return False for a local name assigned once: unbinding it would prove nothing."""
    if isinstance(target, ast.Name):
        return target.id in scope.assigned
    return isinstance(target, ast.Attribute | ast.Subscript)


def _comparisons(node: ast.Compare) -> Iterator[ast.Compare]:
    for index, op in enumerate(node.ops):
        ops = [*node.ops]
        ops[index] = COMPARISONS[type(op)]()
        yield ast.Compare(node.left, ops, node.comparators)


def _shorter(node: ast.BoolOp) -> Iterator[ast.expr]:
    """Yield the expression without one of its operands, for each operand."""
    for index in range(len(node.values)):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _is_arithmetic(node: ast.BinOp, scope: _Scope) -> bool:
    """Return False for joined texts and lists and for unions of types."""
    for operand in (node.left, node.right):
        if isinstance(operand, SEQUENCES):
            return False
        if isinstance(operand, ast.Constant) and not isinstance(operand.value, int | float):
            return False
        if isinstance(node.op, ast.BitOr) and (scope.at_import or _is_type(operand)):
            return False
    return True


def _is_type(node: ast.expr) -> bool:
    name = {ast.Name: "id", ast.Attribute: "attr"}.get(type(node))
    text = getattr(node, name) if name else ""
    builtin = text in {"int", "str", "bytes", "bool", "float", "list", "dict", "tuple", "set"}
    return builtin or (text[:1].isupper() and not text.isupper())


def _negation(test: ast.expr, place: Place, scope: _Scope) -> Iterator[_Change]:
    """Yield the opposite of a condition, unless another mutation is the same."""
    if isinstance(test, ast.Constant) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    ):
        return
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], EQUALITIES):
        return
    new = ast.UnaryOp(ast.Not(), copy.copy(test))
    yield _Change("condition", test, new, place, scope)
