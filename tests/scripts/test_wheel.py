"""The one package of the wheel: rewritten sources, the files, the hook, the lists of packages."""

import tomllib
from pathlib import Path, PurePosixPath

import pytest

from scripts.wheel.hook import OnePackageHook
from scripts.wheel.rewriting import NamedModuleError, rewritten
from scripts.wheel.tree import StrangeFileError, module_name, package_files, wheel_files

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = frozenset({"raft", "raft.core", "cli", "cli.main", "node", "node.log"})
NOT_IN_THE_WHEEL = {"tests", "benchmarks", "pyspark_kraft_log"}
"""Top-level packages of the repository alone; the wheel would have a second name by the last."""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from raft import core", "from kraftline.raft import core"),
        ("from raft.core import A, B", "from kraftline.raft.core import A, B"),
        ("from  raft.core import (\n    A,\n)", "from  kraftline.raft.core import (\n    A,\n)"),
        ("é = 1; from raft import core", "é = 1; from kraftline.raft import core"),
        ("def f():\n    from cli import main", "def f():\n    from kraftline.cli import main"),
        ("import raft", "import kraftline.raft as raft"),
        ("import raft.core", "import kraftline.raft.core, kraftline.raft as raft"),
        ("import raft.core as c, os", "import kraftline.raft.core as c, os"),
        ("import raft, cli", "import kraftline.raft as raft, kraftline.cli as cli"),
        ("import os, rafting, os.path", "import os, rafting, os.path"),
        ("from rafting import raft", "from rafting import raft"),
        ("from . import raft", "from . import raft"),
        ("from .raft import a", "from .raft import a"),
        ('a = ["cli.main", "é"]', 'a = ["kraftline.cli.main", "é"]'),
        ("a = 'é', 'raft.core'", "a = 'é', 'kraftline.raft.core'"),
        ("f('cli.main', 1)", "f('kraftline.cli.main', 1)"),
        ("run('-m', 'cli.main')", "run('-m', 'kraftline.cli.main')"),
        ("a = 'node', 'node.id', 'raft.core!'", "a = 'node', 'node.id', 'raft.core!'"),
        ("a = b'cli.main'", "a = b'cli.main'"),
        ("f(x, 'node'); files(x, 'node')", "f(x, 'node'); files(x, 'node')"),
        ("f('node', x)", "f('node', x)"),
        ("from raft.gone import a", "from kraftline.raft.gone import a"),
        ("files(__package__)", "files(__package__)"),
        ("files('os'); import_module('os.raft')", "files('os'); import_module('os.raft')"),
        ("files(*a); files(); files(b)", "files(*a); files(); files(b)"),
        ("a = ['-m', 'os'], ['-n', 'node']", "a = ['-m', 'os'], ['-n', 'node']"),
        ("a = 'an image from raft'", "a = 'an image from raft'"),
        ("a = 'python -m pytest'", "a = 'python -m pytest'"),
        ("a = f'-m {raft}.x'", "a = f'-m {raft}.x'"),
        ('"""python -m cli"""\nx: int\n"""raft.core"""', None),
        ('class A:\n    """import raft"""', None),
        ('def f():\n    "-m cli"', None),
        ('async def f():\n    "-m cli"', None),
        ("a = 1\r\nfrom raft import b\r\n", "a = 1\r\nfrom kraftline.raft import b\r\n"),
        ("", ""),
    ],
)
def test_what_names_our_modules_gets_the_package(source: str, expected: str | None) -> None:
    wanted = source if expected is None else expected
    assert rewritten(source.encode(), "a.py", MODULES).decode() == wanted


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("files('raft')", "'raft' as"),
        ("importlib.import_module('raft')", "'raft' as"),
        ("find_spec('raft')", "'raft' as"),
        ("run('-m', 'cli')", "'cli' as"),
        ("a = [x, '-m', 'cli']", "'cli' as"),
        ("a = ('-m', 'cli', '-x')", "'cli' as"),
        ("a = 'python -m cli.main'", "'-m cli.main'"),
        ("a = 'from raft.core import A'", "'from raft.core import'"),
        ("a = 'import raft; raft.go()'", "'import raft'"),
        ("a = 'x = 1; import raft.core'", "'; import raft.core'"),
        ("a = 'x = 1\\n  import raft'", "'import raft'"),
        ("a = f'-m cli {x}'", "'-m cli'"),
        ("a = r'raft.core'", "'raft.core' is no plain string"),
        ("a = 'raft.' 'core'", "'raft.core' is no plain string"),
        ("a = f'raft.core'", "'raft.core' is no plain string"),
        ("a = f'{x}' 'raft.core'", "'raft.core' is no plain string"),
        ("from \\\n  raft import core", "two lines"),
    ],
)
def test_what_names_a_module_in_another_way_is_refused(source: str, named: str) -> None:
    with pytest.raises(NamedModuleError) as refused:
        rewritten(f"x = 1\n{source}\n".encode(), "a/b.py", MODULES)
    text = str(refused.value)
    assert text.startswith("a/b.py:2: ")
    assert named in text
    assert text.endswith("write __package__ or __name__")


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


SMALL = {
    "kraftline/__init__.py": "",
    "kraftline/__main__.py": "from raft.core import a\nimport kraftline\nb = 'kraftline.x'\n",
    "kraftline/py.typed": "",
    "raft/__init__.py": "",
    "raft/core.py": "from raft import core\nimport other\nt = 'raft.core'\n",
    "raft/rooms/one.py": "a = 1",
    "raft/words.json": '["raft.core"]',
    "raft/__pycache__/core.pyc": "",
    "raft/.hidden": "",
    "raft/.cache/words.json": "",
    "other/__init__.py": "",
}


def test_packages_lie_in_the_one_of_the_wheel(tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    files = {str(path): content for path, content in wheel_files(tmp_path, ["raft", "kraftline"])}
    assert files == {
        "kraftline/__init__.py": b"",
        "kraftline/__main__.py": b"from kraftline.raft.core import a\nimport kraftline\n"
        b"b = 'kraftline.x'\n",
        "kraftline/py.typed": b"",
        "kraftline/raft/__init__.py": b"",
        "kraftline/raft/core.py": b"from kraftline.raft import core\nimport other\n"
        b"t = 'kraftline.raft.core'\n",
        "kraftline/raft/rooms/one.py": b"a = 1",
        "kraftline/raft/words.json": b'["raft.core"]',
    }
    names = [path for path, _ in wheel_files(tmp_path, ["raft"])]
    assert names == sorted(names), "the same wheel each time"
    assert all(type(name) is PurePosixPath for name in names)


def test_a_file_that_nobody_meant_to_publish_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"raft/__init__.py": "", "raft/key.pem": ""})
    with pytest.raises(StrangeFileError, match=r"key\.pem is neither a module nor data"):
        list(package_files(tmp_path / "raft"))
    with pytest.raises(AssertionError, match="is no package"):
        list(package_files(tmp_path / "nothing"))


def test_names_of_modules() -> None:
    assert module_name(Path("raft/core.py")) == "raft.core"
    assert module_name(Path("raft/__init__.py")) == "raft"
    assert module_name(Path("raft/a/__init__.py")) == "raft.a"


def hook(root: Path, packages: list[str]) -> OnePackageHook:
    config = {"packages": packages}
    return OnePackageHook(str(root), config, None, None, "", "wheel")  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(made))
    return made


def test_the_hook_hands_over_rewritten_files_and_cleans_up(tmp_path: Path, folder: Path) -> None:
    write(tmp_path, SMALL)
    build = hook(tmp_path, ["kraftline", "raft"])
    data: dict[str, dict[str, str]] = {"force_include": {}}
    build.initialize("standard", data)
    included = {name: Path(path).read_text() for path, name in data["force_include"].items()}
    assert len(included) == 7
    assert included["kraftline/raft/core.py"].startswith("from kraftline.raft import core\n")
    assert len(list(folder.iterdir())) == 1
    build.finalize("standard", data, "")
    assert list(folder.iterdir()) == []


def test_an_editable_install_keeps_the_layout(tmp_path: Path, folder: Path) -> None:
    build = hook(tmp_path, ["raft"])  # which is not there
    data: dict[str, dict[str, str]] = {"force_include": {}}
    build.initialize("editable", data)
    build.finalize("editable", data, "")
    assert data == {"force_include": {}}
    assert list(folder.iterdir()) == []


def test_a_refused_build_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    write(tmp_path, {"raft/__init__.py": "files('raft')"})
    with pytest.raises(NamedModuleError):
        hook(tmp_path, ["raft"]).initialize("standard", {"force_include": {}})
    assert list(folder.iterdir()) == []


def test_every_package_is_in_the_wheel_and_in_the_sdist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    targets = project["tool"]["hatch"]["build"]["targets"]
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    in_wheel = targets["wheel"]["hooks"]["custom"]["packages"]
    assert sorted(in_wheel) == sorted(there - NOT_IN_THE_WHEEL)
    missing = set(in_wheel) - set(targets["sdist"]["only-include"])
    assert not missing
    for name in (*targets["sdist"]["only-include"], targets["wheel"]["hooks"]["custom"]["path"]):
        assert (ROOT / name).exists()


def test_the_command_is_the_same_in_both_layouts() -> None:
    from cli.__main__ import entry as of_cli
    from kraftline.__main__ import entry

    assert entry is of_cli
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["scripts"] == {"kraftline": "kraftline.__main__:entry"}
