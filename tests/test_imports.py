"""Who may import whom: the house's rules, read from the code."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("nevis_stream", "learners", "experiments", "launch")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}

# What each part may import of the project, the longest prefix deciding.
MAY_IMPORT = {
    "launch": ("launch", "experiments", "learners", "nevis_stream"),
    "experiments": ("experiments", "learners", "nevis_stream"),
    "learners": (
        "learners",
        *(f"nevis_stream.{name}" for name in ("task", "learner", "meter", "metrics", "errors", "checkpoint", "counted")),
        "nevis_stream.datasets.images",
    ),
    "nevis_stream": ("nevis_stream",),
    "nevis_stream.analysis": tuple(f"nevis_stream.{name}" for name in ("analysis", "ledger", "metrics", "meter", "errors")),
    "nevis_stream.report": tuple(f"nevis_stream.{name}" for name in ("report", "analysis", "ledger", "errors", "storage")),
    "nevis_stream.datasets": tuple(f"nevis_stream.{name}" for name in ("datasets", "errors")),
}


def imports(module, top_level_only=False):
    """Names of the project's modules that a module imports."""
    tree = ast.parse(MODULES[module].read_text())
    nodes = ast.walk(tree)
    if top_level_only:
        nodes = (node for node in tree.body)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in MODULES else node.module)
    return {name for name in found if name.split(".")[0] in PACKAGES}


def rule_for(module):
    return max((part for part in MAY_IMPORT if module == part or module.startswith(part + ".")), key=len)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module):
    allowed = MAY_IMPORT[rule_for(module)]
    wrong = [name for name in imports(module) if not any(name == a or name.startswith(a + ".") for a in allowed)]
    assert not wrong, f"{module} may import {allowed}"


def test_no_module_imports_itself_through_others():
    graph = {module: imports(module, top_level_only=True) & set(MODULES) for module in MODULES}
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            path.append(module)
            for name in sorted(graph[module]):
                visit(name)
            done.add(path.pop())

    for module in sorted(graph):
        visit(module)


def test_no_module_is_named_for_nothing():
    assert not [name for name in MODULES if name.split(".")[-1] in ("utils", "common", "misc", "helpers")]


@pytest.mark.parametrize(
    "module", ["nevis_stream", "nevis_stream.runner", "nevis_stream.catalogue", "nevis_stream.analysis.points"]
)
def test_importing_is_light(module):
    heavy = ("jax", "flax", "matplotlib", "pandas", "sklearn", "skimage", "scipy", "tensorflow", "tensorflow_datasets", "torch")
    program = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_package_offers_its_names_lazily():
    import nevis_stream

    assert {"run", "Ledger", "Stream"} <= set(dir(nevis_stream))
    assert nevis_stream.Ledger.__module__ == "nevis_stream.ledger"
    with pytest.raises(AttributeError, match="it offers: Ledger"):
        nevis_stream.runs  # noqa: B018
