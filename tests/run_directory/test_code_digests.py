"""Changes of a user's code between the start of a run and its continuation."""

import json
import shutil
import subprocess
import sys
import textwrap
import types
from importlib import reload
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.progress import Silent
from nevis_stream.run_directory import environment
from nevis_stream.runner import run
from tests import toy

QUIET = {"progress": Silent(), "tensorboard": False}
LEARNER = """
from dataclasses import dataclass
from tests.toy import ToyLearner
import {helper}

@dataclass(frozen=True)
class Mine(ToyLearner):
    def train(self, task, state, ctx):
        from {late} import nothing
        if {helper}.dies(task):
            raise KeyboardInterrupt
        return super().train(task, state, ctx)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Modules of a user's: `mine_NAME` with the learner, and two that it imports."""
    folder, name = tmp_path / "code", tmp_path.name.replace("-", "_")
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    names = {part: f"{part}_{name}" for part in ("mine", "helper", "late")}
    (folder / f"{names['mine']}.py").write_text(LEARNER.format(**names))
    (folder / f"{names['late']}.py").write_text("nothing = 0\n")
    helper = folder / f"{names['helper']}.py"
    helper.write_text("def dies(task): return task.year > 1995\n")
    yield __import__(names["mine"]), helper
    for each in names.values():
        sys.modules.pop(each, None)


@pytest.fixture
def begun(mine, tmp_path):
    """The directory of a run that has ended in the middle."""
    module, _ = mine
    with pytest.raises(KeyboardInterrupt):
        run(module.Mine(), toy.stream(), tmp_path / "run", **QUIET)
    return tmp_path / "run"


@pytest.fixture
def changed(mine, begun):
    """The same, where a module that the learner imports has changed since."""
    _, helper = mine
    helper.write_text("def dies(task): return False\n")
    reload(sys.modules[helper.stem])
    return begun


def test_the_code_of_a_run_is_recorded_and_not_in_the_ledger(mine, begun):
    module, helper = mine
    ledger = (begun / "ledger.jsonl").read_bytes()
    assert b"code" not in ledger and ledger.count(b"\n") > 1
    first = environment.read_last_code(begun)
    assert set(first) == {module.__name__, helper.stem, "tests.toy"} | {
        name for name in first if name.startswith(("late", "tests"))
    }


def test_a_changed_module_of_the_users_is_refused(mine, changed):
    module, helper = mine
    before = (changed / "ledger.jsonl").read_bytes()
    with pytest.raises(
        BadInput, match=f"code of {helper.stem} has changed since this run was begun"
    ):
        run(module.Mine(), toy.stream(), changed, **QUIET)
    assert (changed / "ledger.jsonl").read_bytes() == before


def test_a_changed_module_of_the_users_is_accepted_once_for_all(mine, changed):
    module, _ = mine
    ledger = run(module.Mine(), toy.stream(), changed, accept_changed_code=True, **QUIET)
    assert ledger.complete
    assert run(module.Mine(), toy.stream(), changed, **QUIET).complete


def test_a_complete_run_is_not_shown_for_other_code(mine, changed):
    module, _ = mine
    run(module.Mine(), toy.stream(), changed, accept_changed_code=True, **QUIET)
    file = Path(module.__file__)
    file.write_text(file.read_text() + "# another remark\n")
    with pytest.raises(
        BadInput,
        match=f"{module.__name__} has changed since this run was done.*show its results with --acc",
    ):
        run(module.Mine(), toy.stream(), changed, **QUIET)


def test_a_run_without_recorded_code_is_continued(tmp_path):
    run(toy.ToyLearner(), toy.stream(), tmp_path, **QUIET)
    (tmp_path / "environment.jsonl").unlink()
    assert run(toy.ToyLearner(), toy.stream(), tmp_path, **QUIET).complete


def test_another_version_of_a_package_is_one_line(mine, begun):
    module, _ = mine
    file = begun / "environment.jsonl"
    facts = json.loads(file.read_text().splitlines()[-1])
    facts["packages"]["jax"], facts["project"] = "0.0.1", "0123456789ab"
    file.write_text(json.dumps(facts) + "\n")
    with (
        pytest.warns(RunWarning, match="continued with other versions: .*jax 0.0.1, now") as told,
        pytest.raises(KeyboardInterrupt),
    ):
        run(module.Mine(), toy.stream(), begun, **QUIET)
    assert len(told) == 1


NOTEBOOK = """
SCALE = {scale}
def helper(x):
    return x * SCALE
def unused():
    return {unused}
class Mine:
    def train(self, task):
        return sorted(helper(t) for t in task if t in {{'a', 'b', 'c'}})
print("a cell", {unused})
"""


def cell(scale=2, unused=0, extra=""):
    """The digests of a class of a notebook whose cells have been run."""
    module = types.ModuleType("__main__")
    exec(textwrap.dedent(extra) + NOTEBOOK.format(scale=scale, unused=unused), vars(module))
    return environment.digest_code([module.Mine()])


def test_a_redefined_class_of_a_notebook_is_noticed(capsys):
    once = cell()
    assert list(once) == [f"__main__ (Python 3.{sys.version_info.minor})"]
    assert cell() == cell(unused=5) == cell(extra="\n\n# moved down\n") == once
    assert environment.compare_code(once, cell(scale=3)) == list(once)


def test_digests_of_a_notebook_are_the_same_in_another_process():
    script = "import sys; sys.path.insert(0, '.')\n"
    script += "from tests.run_directory.test_code_digests import cell; print(cell())"
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": "5", "JAX_PLATFORMS": "cpu"},
    )
    assert process.stdout.splitlines()[-1] == str(cell())


def test_code_of_the_project_and_of_packages_is_not_the_users():
    from nevis_stream.learners.nearest_class_mean import NearestClassMean

    assert environment.digest_code([NearestClassMean()]) == {}


def test_the_commit_of_the_checkout_is_recorded(tmp_path):
    git = shutil.which("git") or pytest.skip("git is not installed")
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([git, "-C", str(tmp_path), *words], check=True)
    head = subprocess.run(
        [git, "-C", str(tmp_path), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    assert environment.project_commit(tmp_path) == head.stdout[:12]
