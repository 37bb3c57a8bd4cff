"""Which modules may import which: the project's rules, checked in the code."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Folders of the checkout, which are packages of nevis_stream; each may import those before it.
FOLDERS = ("learners", "experiments", "launch")
BESIDE = ("tests", "benchmarks")  # may import everything; nothing imports them


def modules(*packages):
    """Paths by module name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
    }


# rglob does not follow links
MODULES = modules("nevis_stream", *(f"nevis_stream/{name}" for name in FOLDERS))
AROUND = modules(*BESIDE)


def of_nevis_stream(*names):
    return tuple(f"nevis_stream.{name}" for name in names)


# What of a run directory may be read without the programs that wrote it.
RUN_FILES = (
    "run_directory.ledger",
    "run_directory.records",
    "run_directory.config",
    "run_directory.conventions",
    "run_directory.environment",
    "run_directory.mistakes",
    "run_directory.readings",
    "run_directory.folders",
)

# What each part may import of the project; of several the longest prefix decides.
MAY_IMPORT = {
    "nevis_stream.launch": ("nevis_stream",),
    "nevis_stream.experiments": ("nevis_stream",),
    "nevis_stream.learners": (
        *of_nevis_stream(
            "learners",
            "streams.task",
            "learner",
            "cost.meter",
            "metrics",
            "errors",
            "run_directory.checkpoint",
            "seeds",
            "cost.counted",
            "datasets.images",
            "user_code",
            "former_names",
            "vocabulary",
        ),
    ),
    "nevis_stream": ("nevis_stream",),
    "nevis_stream.analysis": of_nevis_stream(
        "analysis",
        *RUN_FILES,
        "metrics",
        "cost.meter",
        "cost.engineering",
        "errors",
        "catalogue",
        "vocabulary",
        "wording",
    ),
    "nevis_stream.report": of_nevis_stream(
        "report",
        "analysis",
        *RUN_FILES,
        "cost.meter",
        "cost.engineering",
        "storage",
        "spreadsheet",
        "terminal",
        "errors",
        "vocabulary",
        "wording",
    ),
    "nevis_stream.active_testing": of_nevis_stream(
        "active_testing",
        "dynamic_evaluation",
        "cost",
        "errors",
        "extensions",
        "lazy",
        "seeds",
        "wording",
    ),
    "nevis_stream.catalogue": of_nevis_stream("catalogue", "storage", "errors", "vocabulary"),
    "nevis_stream.datasets": of_nevis_stream(
        "datasets",
        "catalogue",
        "storage",
        "errors",
        "terminal",
        "user_code",
        "vocabulary",
        "wording",
    ),
    "nevis_stream.storage": of_nevis_stream("storage", "errors"),
    "nevis_stream.metrics": of_nevis_stream("metrics", "errors", "datasets.dataset", "vocabulary"),
}
# What it may not, of what the table above allows.
MAY_NOT_IMPORT = {
    "nevis_stream.dynamic_evaluation": of_nevis_stream("runner"),
}


def inside(module, part):
    return module == part or module.startswith(part + ".")


def layer(module):
    """0 for the library; the folders learners, experiments and launch stand above each other."""
    folders = [
        number for number, name in enumerate(FOLDERS, 1) if inside(module, f"nevis_stream.{name}")
    ]
    return folders[0] if folders else 0


def when_imported(node):
    """The statements that run when a module is imported: all but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from when_imported(child)


def imports(module, at_import_only=False):
    """Names of the project's modules that a module imports."""
    tree = ast.parse((MODULES | AROUND)[module].read_text())
    result = set()
    for node in when_imported(tree) if at_import_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                result.add(full if full in MODULES else node.module)
    return {name for name in result if name.split(".")[0] in ("nevis_stream", *FOLDERS, *BESIDE)}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module):
    rule = max((part for part in MAY_IMPORT if inside(module, part)), key=len)
    wrong = {
        name for name in imports(module) if not any(inside(name, part) for part in MAY_IMPORT[rule])
    }
    wrong |= {name for name in imports(module) if layer(name) > layer(module)}
    for part, forbidden in MAY_NOT_IMPORT.items():
        if inside(module, part):
            wrong |= {
                name for name in imports(module) if any(inside(name, other) for other in forbidden)
            }
    assert not wrong, f"{module} may import of the project: {', '.join(MAY_IMPORT[rule])}"


@pytest.mark.parametrize("module", sorted(MODULES | AROUND))
def test_a_module_has_one_name(module):
    wrong = {name for name in imports(module) if name.split(".")[0] in FOLDERS}
    assert not wrong, "import it as nevis_stream.…: a second copy would be loaded"


def test_no_module_imports_itself_through_others():
    graph = {module: imports(module, at_import_only=True) & set(MODULES) for module in MODULES}
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
    names = {*MODULES, *AROUND}
    assert len(names) > len(MODULES)
    assert not [
        name for name in names if {"utils", "common", "misc", "helpers"} & set(name.split("."))
    ]


@pytest.mark.parametrize(
    "module",
    [
        "nevis_stream",
        "nevis_stream.runner",
        "nevis_stream.catalogue.variants",
        "nevis_stream.datasets.sources",
        "nevis_stream.analysis.points",
    ],
)
def test_importing_is_light_and_quick(module):
    heavy = (
        "jax",
        "flax",
        "matplotlib",
        "pandas",
        "sklearn",
        "skimage",
        "scipy",
        "tensorflow",
        "tensorflow_datasets",
        "torch",
    )
    program = (
        f"import sys, time, {module}; print(time.process_time(), [n for n in {heavy!r} if n in"
        " sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    seconds, loaded = done.stdout.split(maxsplit=1)
    assert loaded.strip() == "[]"
    assert float(seconds) < 1  # of CPU, whatever else runs; 0.2 is usual


def test_the_package_offers_its_names_lazily():
    import nevis_stream

    assert {"run", "Ledger", "Stream"} <= set(dir(nevis_stream))
    assert nevis_stream.Ledger.__module__ == "nevis_stream.run_directory.ledger"
    with pytest.raises(AttributeError, match="it offers: .*Ledger"):
        nevis_stream.runs  # noqa: B018
