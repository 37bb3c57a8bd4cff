"""Which modules may import which: the project's rules, checked in the code."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Folders of the checkout, which are packages of nevis_stream.
FOLDERS = ("learners", "launch", "experiments")
ABOVE = ("learners", "configs", "launch", "experiments")  # each may import those before it
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
    "run_directory.environment",
    "run_directory.outcomes",
)

# What every part may import; these import each other only.
BASE = of_nevis_stream(
    "array_types",
    "errors",
    "extensions",
    "lazy",
    "progress",
    "seeds",
    "storage",
    "terminal",
    "user_calls",
    "user_code",
    "vocabulary",
)

# What else each part may import of the project, besides itself; of several the longest prefix
# decides. A part without a row may import BASE alone.
MAY_IMPORT = {
    "nevis_stream": (),
    "nevis_stream.cost": (),
    "nevis_stream.catalogue": (),
    "nevis_stream.training": of_nevis_stream("cost"),
    "nevis_stream.datasets": of_nevis_stream("catalogue"),
    "nevis_stream.metrics": of_nevis_stream("datasets.dataset"),
    "nevis_stream.run_directory": of_nevis_stream("cost", "metrics", "datasets"),
    "nevis_stream.queries": of_nevis_stream("cost"),
    "nevis_stream.evaluation_cache": of_nevis_stream("queries", "datasets.dataset"),
    "nevis_stream.streams": of_nevis_stream("catalogue", "datasets", "run_directory"),
    "nevis_stream.streams.adaptive": of_nevis_stream(
        "streams", "datasets", "run_directory", "queries", "evaluation_cache"
    ),
    "nevis_stream.executor": of_nevis_stream("cost"),
    "nevis_stream.learner": of_nevis_stream(
        "cost", "datasets.images", "streams.task", "run_directory", "executor"
    ),
    "nevis_stream.runner": of_nevis_stream(
        "cost",
        "datasets",
        "executor",
        "learner",
        "metrics",
        "run_directory",
        "streams",
    ),
    "nevis_stream.estimation": of_nevis_stream("queries"),
    "nevis_stream.dynamic_evaluation": of_nevis_stream("cost", "queries", "estimation", "training"),
    # sessions copy their board into a cache, and open it
    **{
        f"nevis_stream.dynamic_evaluation.{name}": of_nevis_stream(
            "cost", "dynamic_evaluation", "queries", "estimation", "evaluation_cache"
        )
        for name in ("session", "session_start", "session_records", "other_metrics", "told_files")
    },
    "nevis_stream.additions": of_nevis_stream(
        "cost", "dynamic_evaluation", "queries", "estimation", "evaluation_cache"
    ),
    "nevis_stream.active_testing": of_nevis_stream("cost", "queries", "estimation", "training"),
    # a pool of images is a folder or a data set
    "nevis_stream.active_testing.labelling": of_nevis_stream(
        "active_testing", "queries", "evaluation_cache", "catalogue", "datasets"
    ),
    "nevis_stream.trained_runs": of_nevis_stream(
        "cost",
        "datasets",
        "evaluation_cache",
        "learner",
        "metrics",
        "queries",
        "run_directory",
        "streams",
    ),
    "nevis_stream.analysis": of_nevis_stream(*RUN_FILES, "metrics", "cost.meter", "catalogue"),
    "nevis_stream.report": of_nevis_stream("analysis", *RUN_FILES, "cost.meter"),
    "nevis_stream.learners": of_nevis_stream(
        "cost.counted",
        "cost.meter",
        "datasets.images",
        "learner",
        "metrics",
        "storage.checkpoint",
        "streams.task",
        "training",
    ),
    "nevis_stream.configs": ("nevis_stream",),
    "nevis_stream.experiments": ("nevis_stream",),
    "nevis_stream.launch": ("nevis_stream",),
}


def inside(module, part):
    return module == part or module.startswith(part + ".")


def layer(module):
    """0 for the library; the packages ABOVE it stand above each other."""
    folders = [
        number for number, name in enumerate(ABOVE, 1) if inside(module, f"nevis_stream.{name}")
    ]
    return folders[0] if folders else 0


NOT_IMPORTED = ("TYPE_CHECKING", "__name__ == '__main__'")


def without_types(node):
    """The nodes below one, those in functions too, but not those under `if TYPE_CHECKING`, nor the
    last lines of a script: as the program, it is above all packages.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in NOT_IMPORTED:
            below = child.orelse
        else:
            below = [child]
        for each in below:
            yield each
            yield from without_types(each)


@functools.cache
def find_imports(module):
    """Names of the modules that a module imports, at its import or in a function."""
    tree = ast.parse((MODULES | AROUND)[module].read_text())
    result = set()
    for node in without_types(tree):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                result.add(full if full in MODULES else node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            result |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    return result


def imports(module):
    """Names of the project's modules that a module imports."""
    ours = ("nevis_stream", *FOLDERS, *BESIDE)
    return {name for name in find_imports(module) if name.split(".")[0] in ours}


def list_other_packages():
    """Top-level names of all that the project imports of others, installed or not."""
    names = {name.partition(".")[0] for module in MODULES for name in find_imports(module)}
    return sorted(names - {"nevis_stream"} - sys.stdlib_module_names)


def allowed(module):
    """Prefixes of what a module may import."""
    part = max((part for part in MAY_IMPORT if inside(module, part)), key=len)
    own = (part,) if part != "nevis_stream" else (module,)
    return (*own, *BASE, *MAY_IMPORT[part])


# One test for all modules: a test each takes longer than what it checks.
def test_imports_go_one_way():
    wrong = []
    for module in MODULES:
        valid = allowed(module)
        for name in imports(module):
            if layer(name) > layer(module) or not any(inside(name, part) for part in valid):
                wrong.append(f"{module} imports {name}; it may import: {', '.join(valid)}")
    assert not wrong, "\n".join(wrong)


def test_the_test_sees_imports_in_functions_but_no_types():
    tree = ast.parse(
        "if TYPE_CHECKING:\n import a\nelse:\n import b\ndef f():\n if x:\n  import c\n"
    )
    found = [node.names[0].name for node in without_types(tree) if isinstance(node, ast.Import)]
    assert found == ["b", "c"]


def list_documented():
    """Names of the packages that the table of CONTRIBUTING.md describes."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things are")[2]
    named = re.findall(r"^\| (`.*?) \|", table.partition("\n## ")[0], re.M)
    paths = [path for row in named for path in re.findall(r"`([\w/]+?)(?:\.py|/)?`", row)]
    names = of_nevis_stream(*(path.removeprefix("nevis_stream/") for path in paths))
    assert {name.rpartition(".")[0] for name in MODULES if name.count(".") == 2} <= {
        *names,
        "nevis_stream",
    }
    return names


def test_research_imports_public_names_of_documented_packages_and_nothing_imports_it():
    documented, wrong = ("nevis_stream", *list_documented()), []
    for module in MODULES:
        is_research = inside(module, "nevis_stream.experiments")
        for node in without_types(ast.parse(MODULES[module].read_text())):
            if not isinstance(node, ast.ImportFrom):
                continue
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            if not is_research and any(inside(name, "nevis_stream.experiments") for name in names):
                wrong.append(f"{module} imports {', '.join(names)}: entry points find research")
            if is_research and inside(node.module, "nevis_stream"):
                package = ".".join(node.module.split(".")[:2])
                wrong += [
                    f"{module} imports {name}, which is private or not in CONTRIBUTING.md's table"
                    for name in names
                    if package not in documented or re.search(r"\._(?!_)", name)
                ]
    assert not wrong, "\n".join(wrong)


def test_a_module_has_one_name():
    folder = re.compile(rf"^ *(?:from|import) (?:{'|'.join(FOLDERS)})\b.*", re.M)
    texts = {name: path.read_text() for name, path in (MODULES | AROUND).items()}
    wrong = [f"{name}: {found}" for name in texts for found in folder.findall(texts[name])]
    assert not wrong, f"import it as nevis_stream.…: a second copy would be loaded: {wrong}"


def test_only_storage_makes_temporary_files():
    """Those of others would stay after a kill."""
    assert [name for name in MODULES if "tempfile" in find_imports(name)] == [
        "nevis_stream.storage"
    ]


def test_no_module_imports_itself_through_others():
    graph = {module: imports(module) & set(MODULES) for module in MODULES}
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
        "nevis_stream.catalogue",
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
