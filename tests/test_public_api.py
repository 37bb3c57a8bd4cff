"""The public interface: its names, their types, and where they are documented."""

import ast
import importlib
import importlib.metadata
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import setuptools
from mypy import modulefinder

import nevis_stream as ns
from nevis_stream import active_testing, dynamic_evaluation, extensions, metrics, user_code
from nevis_stream.active_testing import testing
from nevis_stream.configs import run_config
from nevis_stream.cost import meter
from nevis_stream.datasets import sources
from nevis_stream.dynamic_evaluation.method import ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.launch import command_line, config_flag
from nevis_stream.learner import configure
from nevis_stream.learners.table import TABLE
from nevis_stream.report import summaries
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.records import PredictRecord
from tests import forked, toy
from tests.documented_commands import small_dataset

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = ("learners", "experiments", "launch")
INDEXES = (ns, dynamic_evaluation, active_testing)
NAMES = [(index.__name__, name) for index in INDEXES for name in index.__all__]
USER = """
import nevis_stream as ns
import numpy as np
from nevis_stream import active_testing as at
from nevis_stream import dynamic_evaluation as de
from nevis_stream.learners.table import TABLE


class Uniform:
    def init(self, ctx: ns.Context) -> dict[str, int]:
        return {}

    def train(
        self, task: ns.TaskView, state: dict[str, int], ctx: ns.Context
    ) -> tuple[dict[str, int], list[ns.Predictor]]:
        return {**state, task.id: task.num_classes}, [ns.Predictor({"classes": task.num_classes})]

    def predict(self, predictor: dict[str, int], images: ns.Images, ctx: ns.Context) -> np.ndarray:
        classes = predictor["classes"]
        return np.full((len(images), classes), 1 / classes)


stream: ns.Stream = ns.load_stream("pico")
ledger: ns.Ledger = ns.run("closed_form", "pico", "runs/a", preset="small")
ns.run(Uniform(), stream, "runs/b", progress=ns.Silent())
learner: ns.Learner = ns.make_learner("ft_prev", values={"train.steps": 4})
reveal_type([task.num_classes for task in stream.tasks])
reveal_type(ledger.complete)
reveal_type(ns.compare("runs/a", ["runs/b"]))
reveal_type(ns.write_report(["runs/a"], out="report"))
board = de.read_board("board.csv")
reveal_type(board.shape)


def my_model(ids: list[str]) -> list[float]:
    return [1.0 for _ in ids]


def label(rows: list[int]) -> list[int]:
    return [0 for _ in rows]


reveal_type(de.evaluate(board, my_model, budget=64).value)
session = de.Session.start("sessions/new", board, budget=64)
for ids in session:
    session.tell({sample: 1 for sample in ids})
reveal_type(session.estimate().low)
probabilities = np.full((4, 2), 0.5)
reveal_type(at.estimate(probabilities, label, budget=2))
reveal_type([each.high for each in at.estimates(probabilities, label, budget=2)])
reveal_type(sorted(TABLE))
"""
REVEALED = [
    "list[int]",
    "bool",
    "nevis_stream.analysis.differences.Comparison",
    "pathlib.Path",
    "tuple[int, int]",
    "float",
    "float",
    "nevis_stream.queries.oracle.Estimate",
    "list[float]",
    "list[str]",
]
# What they offer is not looked at, which saves half a minute.
LIBRARIES = "jax jaxlib flax optax pandas scipy matplotlib rich absl ml_collections PIL sklearn"
SKIPPED = ",".join(f"{name}.*" for name in LIBRARIES.split())
OF_THE_USER = {"Predictor.tree", "Learner.init", "Trial.item", "Trial.begin"} | {
    f"Context.{name}" for name in ("jit", "predictor", "replicate", "spread")
}
"""What is a learner's own: trees, and functions of these."""
OF_LIBRARIES = {
    "Comparison.to_pandas",
    "Ledger.accuracy_matrix",
    "Ledger.to_pandas",
    "BudgetPlan.to_pandas",
    "Context.key",
    "Context.key_for",
}
"""Tables of pandas, which has no types, and keys of JAX, which is not looked at here."""
MISTAKES = """
import nevis_stream as ns
ns.run("closed_form", 3, "runs/a")
ns.make_leaner("ft_prev")
"""


@pytest.fixture(scope="module")
def installed():
    """Skips where the project was installed before its entry points were written."""
    for group, entries in PYPROJECT["project"]["entry-points"].items():
        present = {
            entry.name: entry.value for entry in importlib.metadata.entry_points(group=group)
        }
        if present != entries:
            pytest.skip(
                "installed with other entry points than pyproject.toml has: pip install -e ."
            )


def test_an_older_python_is_told_which_one_is_needed():
    """Instead of pip's list of versions that do not fit."""
    old = "import sys, runpy; sys.version_info = (3, 10, 4); runpy.run_path('setup.py')"
    words = [sys.executable, "-c", old]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "needs Python 3.11 or newer; this is 3.10." in done.stderr


def submodules(package):
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.__name__)
def test_a_name_means_one_thing(index):
    assert not set(index.__all__) & submodules(index)
    assert len(index.__all__) < 40
    assert set(index.__all__) <= set(dir(index))


@pytest.mark.parametrize(("index", "name"), NAMES, ids=lambda each: each)
def test_a_public_name_can_be_used_and_says_what_it_is(index, name):
    value = getattr(importlib.import_module(index), name)
    assert value.__doc__ and not name.lower().startswith("test")


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.__name__)
def test_the_types_are_of_the_names(index):
    """What a type checker sees is what Python loads."""
    tree = ast.parse(Path(index.__file__).read_text())
    block, _ = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        alias.asname: node.module.removeprefix("nevis_stream.")
        for node in block.body
        for alias in node.names
    }
    assert typed == index._HOMES


def test_results_say_what_they_are(tmp_path):
    """Where they are printed, and as a cell of a notebook."""
    ledger = ns.Ledger(ROOT / "tests" / "golden" / "indep")
    assert re.fullmatch(
        r"Ledger of \S+indep: indep on \w+, seed 0, (\d+) of \1 tasks", repr(ledger)
    )
    predicted = len(ledger.of_kind(PredictRecord))
    assert ledger._repr_html_().count("<tr>") == predicted and predicted > 1
    assert repr(ns.Ledger(tmp_path)).endswith(": no record yet")
    assert ns.Ledger(tmp_path)._repr_html_().startswith("<p>Ledger of")
    assert repr(toy.stream()) == "Stream toy: 4 tasks, 1992 to 2015"
    shutil.copytree(ROOT / "tests" / "evaluation_cache" / "golden", tmp_path / "cache")
    cache = ns.EvaluationCache(tmp_path / "cache")
    assert repr(cache).startswith(
        f"EvaluationCache {tmp_path / 'cache'}: {len(cache.models())} mod"
    )


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text()
    missing = []
    for index in INDEXES:
        for name, home in index._HOMES.items():
            module = f"nevis_stream.{home}"
            documented = (
                f"automodule:: {module}\n" in text
                or f"autofunction:: {module}.{name}\n" in text
                or f"autoclass:: {module}.{name}\n" in text
            )
            missing += [] if documented else [f"{module}.{name}"]
    assert not missing


def test_a_wheel_has_one_name_at_the_top():
    find = PYPROJECT["tool"]["setuptools"]["packages"]["find"]
    packages = set(setuptools.find_packages(ROOT, include=find["include"]))
    assert {name.partition(".")[0] for name in packages} == {"nevis_stream"}
    for name in FOLDERS:
        assert f"nevis_stream.{name}" in packages
        assert (ROOT / "nevis_stream" / name).resolve() == ROOT / name


def test_every_named_learner_is_offered(installed):
    assert extensions.list_offered(extensions.LEARNERS) == list(TABLE)


def test_a_broken_table_of_another_package_stops_only_what_is_offered_nowhere(monkeypatch):
    from importlib.metadata import EntryPoint

    group = "nevis_stream.learner_tables"
    own = EntryPoint("own", "nevis_stream.learners.table:TABLE", group)
    broken = EntryPoint("theirs", "no_such_package:TABLE", group)

    def entries(group, name=None):
        return [broken, own] if group == own.group else []

    monkeypatch.setattr(extensions, "entry_points", entries)
    assert extensions.load(extensions.LEARNERS, "indep") is TABLE["indep"]
    with pytest.raises(BadInput, match="theirs = no_such_package:TABLE cannot be imported"):
        extensions.load(extensions.LEARNERS, "indeed")


def show_types():
    """Returns a file that reveals the type of every public name and attribute."""
    lines = ["import nevis_stream", *(f"import {index.__name__}" for index in INDEXES[1:])]
    for index, name in NAMES:
        value = getattr(importlib.import_module(index), name)
        lines.append(f"reveal_type({index}.{name})")
        if isinstance(value, type) and not issubclass(value, BaseException):
            lines.append(f"def show_{len(lines)}(value: {index}.{name}) -> None:")
            names = {*dir(value), *getattr(value, "__annotations__", ())}
            shown = [f"    reveal_type(value.{each})  # {name}.{each}" for each in sorted(names)]
            lines += [line for line in shown if "# " + name + "._" not in line] or ["    pass"]
    return "\n".join(lines) + "\n"


def test_a_users_file_passes_strict_checks(wheel_environment, tmp_path):
    """With the wheel, beside a folder of the user's own that has the name of one of ours."""
    (tmp_path / "learners").mkdir()
    for name, text in {"use": USER, "wrong": MISTAKES, "names": show_types()}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{SKIPPED}]\nfollow_imports = skip\n")
    python = str(wheel_environment / "bin" / "python")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    done = subprocess.run(
        [*command, "--cache-dir=cache", "use.py", "wrong.py", "names.py"],
        cwd=tmp_path,
        env={"PATH": ""},
        capture_output=True,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(found) == 2, done.stdout + done.stderr
    assert 'wrong.py:3: error: Argument 2 to "run" has incompatible type "int"' in found[0]
    assert 'wrong.py:4: error: Module has no attribute "make_leaner"' in found[1]
    pattern = r'^(\w+)\.py:(\d+): note: Revealed type is "(.*)"$'
    notes = re.findall(pattern, done.stdout.replace("builtins.", ""), re.M)
    assert [kind for file, _, kind in notes if file == "use"] == REVEALED
    source = show_types().splitlines()
    shown = [(source[int(line) - 1], kind) for file, line, kind in notes if file == "names"]
    unknown = {name.partition("# ")[2] for name, kind in shown if re.search(r"(^|> )Any$", kind)}
    assert len(shown) > 250 and unknown == OF_THE_USER | OF_LIBRARIES


@pytest.mark.parametrize("name", ["nevis_stream", *(f"nevis_stream.{n}" for n in FOLDERS)])
def test_a_resolver_finds_every_import_name(wheel_environment, name):
    """From the checkout, and from the wheel, where none of the names is a link."""
    (site,) = wheel_environment.glob("lib/python*/site-packages")
    for place in (ROOT, site):
        paths = modulefinder.SearchPaths((str(place),), (), (), ())
        found = modulefinder.FindModuleCache(paths, None, None).find_module(name)
        assert found == str(place.joinpath(*name.split("."), "__init__.py"))


QUIET = {"progress": ns.Silent(), "tensorboard": False}


@pytest.mark.usefixtures("embedded_once", "installed")
def test_a_learner_by_name_is_the_one_of_the_command(tmp_path):
    words = ["--config=nearest_class_mean", f"--run_dir={tmp_path / 'a'}", "--notensorboard"]
    done = forked.run("launch.run", *words)
    assert done.returncode == 0, done.stderr
    assert ns.run("nearest_class_mean", "pico", tmp_path / "b", **QUIET).complete
    first, second = (read_config(tmp_path / name) for name in "ab")
    assert first.values == second.values


@pytest.mark.usefixtures("installed")
def test_settings_of_a_learner_by_name_are_those_of_the_command():
    words = ["--config=closed_form", "--config.budget=small", "--config.sample=200"]
    config = run_config.to_json(run_config.resolve(config_flag.split_words(words).config()))
    assert configure("closed_form", "small", {"sample": 200}).config == config


@pytest.mark.usefixtures("embedded_once", "installed")
def test_runs_of_learners_by_name_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "build_embedded", small_dataset)
    for name in ("nearest_class_mean", "logistic_regression"):
        assert ns.run(name, "pico", tmp_path / name, **QUIET).complete
    comparison = ns.compare(tmp_path / "nearest_class_mean", [tmp_path / "logistic_regression"])
    assert str(comparison).startswith("One seed cannot tell which of nearest_class_mean and")
    assert "<table" in comparison._repr_html_() and len(comparison.to_pandas()) == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ns.make_learner("closed_fom"), "'closed_form'"),
        (lambda: ns.make_learner("closed_form", "tinny"), "'tinny'.*'tiny'"),
        (lambda: ns.make_learner("closed_form", values={"sampl": 3}), "'sample'"),
        (lambda: ns.make_learner("closed_form", values={"sample": "x"}), "must be of type int"),
        (lambda: ns.make_learner("closed_form", values={"seed": 3}), "'seed'.*centres, components"),
        (lambda: ns.run("indep", "pico", "x", config={}), "give values"),
        (lambda: ns.run(object(), "pico", "x", preset="tiny"), "given by its name"),
        (lambda: extensions.load(extensions.FEATURES, "patch"), "'patches'"),
    ],
)
def test_mistakes_are_named(installed, call, message):
    with pytest.raises(BadInput, match=message):
        call()


@pytest.mark.parametrize("former", user_code.FORMER)
def test_a_former_name_is_documented_and_means_the_present_one(former):
    present, until = user_code.FORMER[former]
    row = f"| `{former}` | `{present}` | {until} |"
    assert row in (ROOT / "docs" / "api.md").read_text()
    assert until.split(".") > importlib.metadata.version("nevis_stream").split(".")
    if former in user_code.PACKAGES:
        assert user_code.get_present_name(f"{former}.table") == f"{present}.table"
    elif former == "Config.BUDGETS":  # of a learner's config
        assert run_config.get_presets(type("Old", (), {"BUDGETS": {"tiny": {}}})) == {"tiny": {}}
    else:
        plan = Plan({}, {}, ResponsePosterior(3), 1)
        parts = {"Context": ns.Context.standalone(), "Plan": plan, "run_config": run_config}
        parts |= {"meter": meter, "metrics": metrics, "testing": testing}
        owner, old = former.split(".")
        new = present.removeprefix(f"{owner}.")
        assert getattr(parts[owner], old) == getattr(parts[owner], new)


@pytest.mark.parametrize("base", [ScorePredictor, Policy])
def test_a_class_with_a_method_of_a_former_name_is_refused(base):
    with pytest.raises(BadInput, match="Old: the method `beliefs` is now called `make_posterior`"):
        type("Old", (base,), {"beliefs": None})


def test_the_former_names_give_the_same_modules(tmp_path):
    """In a checkout, and where only nevis_stream is on the path; a user's folder comes first."""
    checkout = (
        "import nevis_stream.configs.run_config as a\n"
        "from nevis_stream.configs import run_config as b\n"
        "import experiments.studies, nevis_stream.experiments.studies, learners.table\n"
        "import nevis_stream.learners.table as table\n"
        "same = experiments.studies is nevis_stream.experiments.studies, learners.table is table\n"
        "print(a is b, *same)"
    )
    done = subprocess.run(
        [sys.executable, "-c", checkout], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "True True True\n", done.stderr
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "nevis_stream").symlink_to(ROOT / "nevis_stream")
    (tmp_path / "own.py").write_text(
        "import experiments\nfrom learners import table\nSAME = table, experiments.MINE\n"
    )
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("MINE = 3\n")
    wheel = (
        "import sys\n"
        f"sys.path = [{str(tmp_path / 'site')!r}]"
        f" + [path for path in sys.path if path not in ('', {str(ROOT)!r})]\n"
        "sys.meta_path = [each for each in sys.meta_path if 'editable' not in repr(each)]\n"
        "from nevis_stream import user_code\n"
        f"user_code.look_in([{str(tmp_path)!r}])\n"
        "own = user_code.import_module('own')\n"
        "import nevis_stream.learners.table as table\n"
        "print(own.SAME[0] is table, own.SAME[1])"
    )
    done = subprocess.run([sys.executable, "-c", wheel], cwd="/", capture_output=True, text=True)
    assert done.stdout == "True 3\n", done.stderr


def test_what_is_missing_without_research_is_said(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(extensions, "entry_points", lambda group: [])
    assert command_line.find_offered("label") == ()
    for words in (["simulate", "--out=study"], []):
        monkeypatch.setattr(sys, "argv", ["label", *words])
        with pytest.raises(SystemExit):
            command_line.start("Labels.", ())
        assert "install the project again, as README says" in capsys.readouterr().err
    with pytest.raises(BadInput, match="offers any config .* install the project again"):
        config_flag.split_words(["--config=studies/width"]).config()
    (tmp_path / "study_summary.json").write_text("{}")
    with pytest.raises(BadInput, match="any part of the report .* install the project again"):
        summaries.read_study(tmp_path)
