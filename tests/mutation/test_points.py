"""Mutations of a module for the mutation score, and the statements that it leaves alone."""

import ast

import pytest

from scripts.mutation.points import mutated, points

MODULE = "raft/limits.py"


def changes(source):
    """Kind, text before and text after of every mutation."""
    return [(p.kind, p.source, p.mutation) for p in points(MODULE, source)]


def in_function(*lines):
    return "def f(a, b, c):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", [("comparison", "a < b", "a <= b")]),
        ("x = a >= b", [("comparison", "a >= b", "a > b")]),
        ("x = a == b", [("comparison", "a == b", "a != b")]),
        ("x = a not in b", [("comparison", "a not in b", "a in b")]),
        ("x = a is b", [("comparison", "a is b", "a is not b")]),
        (
            "x = a < b <= c",
            [
                ("comparison", "a < b <= c", "a <= b <= c"),
                ("comparison", "a < b <= c", "a < b < c"),
            ],
        ),
        (
            "x = a and b",
            [
                ("boolean", "a and b", "a or b"),
                ("condition", "a and b", "b"),
                ("condition", "a and b", "a"),
            ],
        ),
        ("x = a - b", [("arithmetic", "a - b", "a + b")]),
        ("x = a << b", [("arithmetic", "a << b", "a >> b")]),
        ("x = 3", [("constant", "3", "4")]),
        ("x = True", [("constant", "True", "False")]),
        ("x = not a", [("condition", "not a", "a")]),
        ("x = -a", [("sign", "-a", "a")]),
    ],
)
def test_expressions_change_in_one_place(source, expected):
    assert changes(source) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("a.x = b",), [("statement", "a.x = b", "")]),
        (("a.x += b",), [("arithmetic", "a.x += b", "a.x -= b"), ("statement", "a.x += b", "")]),
        (("a(b)",), [("statement", "a(b)", "")]),
        (("raise a",), [("statement", "raise a", "")]),
        (("del a[b]",), [("statement", "del a[b]", "")]),
        (("return a",), [("return", "return a", "return None")]),
        (("return True",), [("constant", "True", "False")]),
        (("return None",), []),
        (("x = a",), []),  # the name would only be unbound
        (("x = a", "x = b"), [("statement", "x = a", ""), ("statement", "x = b", "")]),
        (("a = b",), [("statement", "a = b", "")]),  # the argument stays
        (("for x in a: break",), [("statement", "break", "")]),
    ],
)
def test_statements_are_removed(lines, expected):
    assert changes(in_function(*lines)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if a: b.x = c", [("condition", "a", "not a"), ("statement", "b.x = c", "")]),
        ("x = b if a else c", [("condition", "a", "not a")]),
        ("x = [b for b in c if a]", [("condition", "a", "not a")]),
        ("x = b if a == c else c", [("comparison", "a == c", "a != c")]),  # its own negation
        ("x = b if not a else c", [("condition", "not a", "a")]),
        (
            "x = b if a < c else c",
            [("comparison", "a < c", "a <= c"), ("condition", "a < c", "not a < c")],
        ),
    ],
)
def test_conditions_are_negated_once(line, expected):
    assert changes(in_function(line)) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Text with 3 numbers."""',
        "x: Literal[3] = a",
        "def f(a: Literal[3]) -> Literal[4]: pass",
        "@cache(size=3)\ndef f(): pass",
        "class A(Struct, frozen=True): pass",
        "assert a < 3, 4",
        "x = f'{a + 3}'",
        "__slots__ = ('a', 3)",
        "if TYPE_CHECKING:\n    import a",
        "x = zip(a, b, strict=True)",
        "x = a + 'text'",
        "x = [*a] + [b]",
        "Known = A | B",
        "def f(a): return isinstance(a, Follower | Leader) and None",
    ],
)
def test_what_has_no_behaviour_stays(source):
    assert [c for c in changes(source) if c[0] not in {"return", "boolean", "condition"}] == []


def test_a_name_that_an_inner_function_sets_stays_bound():
    source = in_function("x = a", "def g():", "    nonlocal x", "    x = b", "return g")
    assert ("statement", "x = a", "") not in changes(source)  # `nonlocal x` would not compile
    assert ("statement", "x = b", "") in changes(source)


def test_a_name_of_an_inner_function_is_another():
    source = in_function("x = a", "def g():", "    x = b", "return g")
    assert [c for c in changes(source) if c[0] == "statement"] == []


def test_a_union_of_flags_is_arithmetic_but_one_of_types_is_not():
    assert ("arithmetic", "a | b", "a & b") in changes(in_function("x = a | b"))
    assert ("arithmetic", "a.FLAG | b", "a.FLAG & b") in changes(in_function("x = a.FLAG | b"))
    assert changes(in_function("x = a | Follower")) == []
    assert changes(in_function("x = a | int")) == []


def test_a_mutant_is_known_by_function_text_and_ordinal():
    source = "class A:\n    def f(self, a):\n        b = a < 1\n        return a < 1\n"
    found = [p for p in points(MODULE, source) if p.kind == "comparison"]
    assert [p.id for p in found] == [
        "raft/limits.py::A.f::comparison::a < 1 -> a <= 1::0",
        "raft/limits.py::A.f::comparison::a < 1 -> a <= 1::1",
    ]
    moved = [p for p in points(MODULE, f"X = 7\n\n\n{source}") if p.kind == "comparison"]
    assert [p.id for p in moved] == [p.id for p in found]
    assert [p.line for p in moved] == [p.line + 3 for p in found]


def test_a_statement_of_several_lines_is_known_by_its_first():
    source = in_function("x = a(", "    b < c,", ")", "if a:", "    x = b < c")
    found = [p for p in points(MODULE, source) if p.kind == "comparison"]
    assert [(p.line, p.statement) for p in found] == [(3, 2), (6, 6)]


@pytest.mark.parametrize(
    ("source", "at_import", "names"),
    [
        ("LIMIT = 3", True, ("LIMIT",)),
        ("LIMIT: Final = 3", True, ("LIMIT",)),
        ("class A:\n    x: int = 3", True, ("A", "x")),
        ("def f(a=3): pass", True, ("f",)),
        ("def f(a): a(3)", False, ()),
        ("class A:\n    def f(self): self.x(3)", False, ()),
    ],
)
def test_what_runs_at_import_has_the_names_it_defines(source, at_import, names):
    (found,) = (p for p in points(MODULE, source) if p.kind == "constant")
    assert (found.at_import, found.names) == (at_import, names)


def test_the_mutated_module_differs_in_that_place_only():
    source = in_function("a.x = b < c", "return b < c")
    for point in points(MODULE, source):
        changed = ast.unparse(mutated(point, source)).splitlines()
        original = ast.unparse(ast.parse(source)).splitlines()
        different = [n for n, line in enumerate(original, 1) if changed[n - 1] != line]
        assert len(changed) == len(original)
        assert different == [point.line]
        assert (point.mutation or "pass") in changed[point.line - 1]


def test_a_mutation_that_is_gone_is_refused():
    point = points(MODULE, "x = a < b")[0]
    with pytest.raises(KeyError):
        mutated(point, "x = a > b")
