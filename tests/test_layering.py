"""The rooms of the design: imports run down, or stay in their room; importing functx stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Where the packages stand in the repository, and what they are called once installed.
PACKAGES = {"functx": "functx", "transforms": "functx.transforms", "backends": "functx.backends"}

# A name stands for the module and everything below it; `functx` for the package's own __init__ only.
ROOMS = {
    1: "functx.util functx.config functx.errors",
    2: "functx.source functx.trees functx.dtypes functx.size_algebra functx.sizes functx.dims functx.shapes functx.leaks",
    3: "functx.ir",
    4: "functx.primitive",
    5: "functx.pretty functx.parse functx.check functx.passes functx.resize",
    6: "functx.trace functx.capture functx.demand functx.effects functx.interpret functx.backend functx.memory_plan "
    "functx.tensors functx.runtime functx._native",
    7: "functx.ops",
    8: "functx.mutation functx.aliasing functx.views",
    9: "functx.collectives functx.numpy functx.linalg functx.fft functx.random functx.nn functx.lax functx.scipy functx.rebinding",
    10: "functx.transforms functx.backends",
    11: "functx functx.callbacks functx.debug functx.explain functx.export functx.tree functx.testing functx.interop functx.optimize",
}
ROOM_OF = {name: room for room, names in ROOMS.items() for name in names.split()}

# They share room 10 but never meet: jit reaches a backend through the protocol in functx.backend.
STRANGERS = {"functx.transforms": "functx.backends", "functx.backends": "functx.transforms"}

NATIVE = {"functx._native"}  # modules that are not Python files


def find_modules() -> dict[str, Path]:
    """Every module of the three packages by its installed name."""
    modules = {}
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            modules[".".join([package, *parts]).removesuffix(".__init__")] = path
    return modules


def placed_name(module: str) -> str | None:
    """The name in ROOMS that covers the module: itself or its nearest parent, but never `functx` for a module below it."""
    name = module
    while name not in ROOM_OF:
        name = name.rpartition(".")[0]
    return name if name != "functx" or module == "functx" else None


def imports(tree: ast.AST, modules: set[str]) -> Iterator[tuple[int, str]]:
    """(line, module) of each import of functx anywhere in the file, inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            # `from functx import ir` means the module functx.ir; `from functx.ir import Graph` means functx.ir.
            members = [f"{source}.{alias.name}" for alias in node.names]
            names = [member if member in modules else source for member in members]
        else:
            continue
        yield from ((node.lineno, name) for name in dict.fromkeys(names) if name.partition(".")[0] in ("functx", "", *PACKAGES))


def objection(module: str, target: str) -> str | None:
    """Why `module` must not import `target`, if it must not."""
    if target.partition(".")[0] != "functx":
        return f"imports {target}: write imports in full, from functx..."
    here, there = placed_name(module), placed_name(target)
    if here is None:
        return None  # test_every_module_has_a_room says so once
    if there is None:
        return f"imports {target}, which has no room: place it in ROOMS in tests/test_layering.py"
    if STRANGERS.get(here) == there:
        return f"imports {target}: transforms and backends meet only through functx.backend"
    if ROOM_OF[there] > ROOM_OF[here]:
        return f"(room {ROOM_OF[here]}) imports {target} (room {ROOM_OF[there]}): imports run down, pass it in instead"
    return None


def objections(module: str, source: str, modules: set[str]) -> list[tuple[int, str]]:
    found = [(line, objection(module, target)) for line, target in imports(ast.parse(source), modules)]
    return [(line, text) for line, text in found if text]


def test_every_module_has_a_room():
    homeless = [str(path.relative_to(ROOT)) for module, path in find_modules().items() if placed_name(module) is None]
    assert not homeless, f"place these in a room of ROOMS in tests/test_layering.py: {homeless}"


def test_imports_run_down():
    modules = find_modules()
    known = modules.keys() | NATIVE
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module} {text}"
        for module, path in modules.items()
        for line, text in objections(module, path.read_text(encoding="utf-8"), known)
    ]
    assert not wrong, "\n".join(["", *sorted(wrong)])


def test_the_checker_sees():
    """Each forbidden arrow in each spelling, and no allowed one."""
    modules = {"functx.ir", "functx.numpy", "functx.util"}

    def seen(module, source):
        return [line for line, _ in objections(module, source, modules)]

    assert seen("functx.ops.linear", "import numpy\nfrom functx.ir import Graph\nfrom functx import util") == []
    assert seen("functx.ops.linear", "from functx.ops import shape") == []
    assert seen("functx.ir", "import functx.numpy as np") == [1]
    assert seen("functx.ir", "from functx import util, numpy") == [1]
    assert seen("functx.ir", "from functx import grad") == [1]
    assert seen("functx.ir", "def f():\n    if x:\n        from functx.primitive import Primitive") == [3]
    assert seen("functx.ir", "from . import util\nfrom .util import x\nimport transforms.grad\nfrom backends import cpp") == [1, 2, 3, 4]
    assert seen("functx.transforms.jit", "from functx.backends.cpp import emit\nfrom functx.transforms import grad") == [1]
    assert seen("functx.backends.cpp.emit", "import functx.transforms") == [1]
    assert seen("functx", "from functx.transforms.jit import jit\nfrom functx.backends import cpp\nfrom functx import debug") == []
    assert seen("functx.debug", "import functx.unheard_of") == [1]


def test_import_is_light(tmp_path):
    """What only some programs need is loaded when they need it; run elsewhere, so that the installed functx is found."""
    heavy = ["sympy", "networkx", "torch", "triton", "opt_einsum", "sklearn"]
    script = f"import sys, functx; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split(), f"`import functx` loads {done.stdout.strip()}"
