"""Nothing that a stranger's folder contains or names is imported; what the user names is."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nevis_stream import user_code
from nevis_stream.datasets.prepared_images import open_builder
from nevis_stream.errors import BadInput
from nevis_stream.launch import console
from nevis_stream.streams.adaptive.rules import get
from nevis_stream.streams.named_streams import load_stream
from tests import forked, test_imports
from tests.launch.stranger import LIBRARIES
from tests.launch.test_own_learner import LEARNER

TRAP = "open({!r}, 'a').write(__name__ + '\\n')\n"
OPTIONAL = test_imports.list_other_packages()
TRAPS = (*LIBRARIES, *OPTIONAL, "their_learner", "their_rule", "their_feature")
PACKAGES = ("experiments", "learners", "nevis_stream")
RULE = "adaptive:pico_digits,rule=their_rule:RULE"
CACHE, CHECKPOINT, POOL = "--cache=cache/one", "checkpoints/0000-one", "--pool=../one.npz:test"
COMMANDS = {
    "compare": [["run", "other"]],
    "data": {
        "list": ["--stream=pico"],
        "prepare": ["--stream=pico"],
        "import": ["../one.npz", "--task=one", "--year=2024", "--data_dir=../data"],
        "verify": ["--data_dir=../data"],
        "show": ["pico_digits"],
        "overlap": ["--stream=../own.csv"],
    },
    "demo": [["--stream=their-stream"]],
    "dynamic-benchmark": {
        "theory": ["--out=board.csv"],
        "rollouts": ["--rollouts=1", "--data=x.npz"],
    },
    "evaluate": {
        "import": ["their-rule", CACHE],
        "stats": [CACHE],
        "verify": [CACHE],
        "repair": [CACHE, "--out=repaired"],
        "merge": ["cache/one", "--cache=merged"],
        "export": ["x.npz", CACHE],
        "add-model": ["--model=their-rule", "--budget=3", CACHE],
        "fit": [CACHE, "--budget=3"],
        "add-samples": ["--run_dir=their-rule", "--splits=dev", "--budget=1", CACHE],
        "metrics": [CACHE],
        "board": [CACHE],
        "remove": [CACHE, "--samples=a", "--reason=wrong"],
        "amend": ["their-rule", CACHE, "--reason=wrong"],
        "plan": ["board.csv", "--budgets=2"],
        "start": ["board.csv", "--model=new", "--out=live", "--budget=3"],
        "ask": ["live"],
        "tell": ["live", "their-rule"],
        "with-lm-eval": ["live", "--", "true", "--output_path=out"],
        "with-inspect": ["live", "--", "true", "--log-dir=out"],
        "status": ["live"],
        "report": ["live"],
        "compare": ["live"],
        "study": ["board.csv", "--known=0.6", "--methods=random_mean", "--seeds=1", "--budgets=2"],
    },
    "label": {
        "start": [f"--model=their-rule/{CHECKPOINT}", POOL, "--out=session"],
        "next": ["session"],
        "record": ["x.csv", "--session=session"],
        "status": ["session"],
        "report": ["session"],
        "simulate": [
            f"--model=their-learner/{CHECKPOINT}",
            POOL,
            "--out=study",
        ],
    },
    "pretrain": [["--config=indep", "--tasks=their-task", "--out=weights.safetensors"]],
    "report": [["run", "their-rule", "their-learner", "cache/one", "--out=report"]],
    "run": [
        ["--config=nearest_class_mean", "--config.stream=../own.csv", "--run_dir=own"],
        ["--config=ft_prev", "--config.budget=tiny", "--config.train.steps=4"]
        + ["--config.stream=../own.csv", "--run_dir=by-ray", "--executor=ray"]
        + ["--ray_address=127.0.0.1:1"],
    ],
    "slurm": [
        ["--dry_run", "--partition=p", "--hours=1", "--", "launch.run", "--config=indep"]
        + ["--run_dir=own"]
    ],
    "sweep": [
        ["--config=nearest_class_mean", "--config.stream=../own.csv", "--set=protocol=meta_test"]
        + ["--run_dir=sweep", "--dry_run"]
    ],
    "transfer-matrix": [["--indep=their-rule", "--dry_run"]],
    "watch": [["--once", "run", "their-rule"]],
}


@pytest.fixture(scope="module")
def stranger(small_stream, tmp_path_factory):
    """A stranger's folder: runs, and modules that write a line when they are imported."""
    home = tmp_path_factory.mktemp("home")
    for file in small_stream.parent.iterdir():
        shutil.copy(file, home)
    folder = home / "stranger"
    folder.mkdir()
    words = ["--config=nearest_class_mean", "--config.stream=own.csv", "--run_dir=stranger/run"]
    done = forked.run("launch.run", *words, cwd=home)
    assert done.returncode == 0, done.stderr
    read = ["import", "stranger/run", "--stream=own.csv", "--cache=stranger/cache"]
    done = forked.run("launch.evaluate", *read, cwd=home)
    assert done.returncode == 0, done.stderr
    config = json.loads((folder / "run" / "config.json").read_text())
    recorded = {"their-rule": {"stream": RULE}, "their-learner": {"learner": "their_learner:X"}}
    for name, values in recorded.items():
        shutil.copytree(folder / "run", folder / name)
        (folder / name / "config.json").write_text(json.dumps(config | values))
    shutil.copytree(folder / "run", folder / "other")
    (folder / "board.csv").write_text("model,a,b,c\nx,0,1,1\ny,1,1,0\nz,1,0,0\n")
    for name in TRAPS:
        path = folder.joinpath(*name.split("."))
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".py").write_text(TRAP.format(str(folder / "EXECUTED")))
    os.mkfifo(folder / "matplotlibrc")  # Matplotlib would wait for its other end
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(TRAP.format(str(folder / "EXECUTED")))
    return folder


def executed(folder):
    file = folder / "EXECUTED"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def every_command():
    for name, words in COMMANDS.items():
        if isinstance(words, list):
            yield from ((name, each) for each in words)
        else:
            yield from ((name, [subcommand, *each]) for subcommand, each in words.items())


def test_the_sweep_has_every_command():
    assert sorted(COMMANDS) == list(console.COMMANDS)
    for name, words in COMMANDS.items():
        if isinstance(words, dict):
            module = importlib.import_module(console.find_module(name))
            assert sorted(words) == sorted(each.name for each in module.SUBCOMMANDS)


def test_no_command_imports_what_a_strangers_folder_contains_or_names(stranger):
    commands = [("nevis-stream", name, words) for name, words in every_command()]
    # the two ways differ before a subcommand is chosen
    commands += {name: ("python -m", name, words) for name, words in every_command()}.values()
    file = stranger.parent / "commands.json"
    file.write_text(json.dumps(commands))
    done = forked.run("tests.launch.stranger", file, cwd=stranger)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(commands), done.stderr
    assert executed(stranger) == []
    for command, result in zip(commands, results, strict=True):
        assert "Traceback" not in result["printed"], (command, result["printed"])
    refused = [
        words[0]
        for (_, _, words), result in zip(commands, results, strict=True)
        if "add --trust=their_rule" in result["printed"]
    ]
    assert sorted(set(refused)) == ["add-model", "import", "start"], results
    for command, result in zip(commands, results, strict=True):
        if command[1] in ("report", "run", "watch"):
            by_ray = (
                "--executor=ray" in command[2]
            )  # where it is not installed, or finds no cluster
            assert "Ray" in result["printed"] if by_ray else result["status"] == 0, result


@pytest.mark.parametrize("by", [["-m", "launch.report"], None], ids=["python -m", "nevis-stream"])
def test_a_new_process_imports_nothing_of_the_working_directory(stranger, by):
    script = [Path(sys.executable).with_name("nevis-stream"), "report"]
    command = [sys.executable, *by] if by else script
    root = Path(console.__file__).resolve().parents[1]
    # other entries of the path than the working directory, as after an installation
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(
        [*command, "run", "--out=again"],
        cwd=stranger,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert executed(stranger) == []


def test_a_named_learner_finds_its_neighbours_and_nothing_else_is_found(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import helper\n\nclass Mine:\n"
        "    def late(self):\n        import later\n        return later\n"
    )
    libraries = ("numexpr", *OPTIONAL)
    assert {"ray", "inspect_ai", "tensorflow_datasets", "IPython"} <= set(libraries)
    for name in ("helper", "later", *libraries):
        (tmp_path / f"{name}.py").write_text("")
    done = forked.run("tests.launch.own_code", "mine", "mine:Mine", *libraries, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["helper", "later", "hidden"]


@pytest.fixture(scope="module")
def of_own_folder(small_stream, tmp_path_factory):
    """A folder with a package called as this project's, a run of a learner in it, the command of
    the run, and how it ended.
    """
    folder = tmp_path_factory.mktemp("of_own_folder") / "folder"
    (folder / "learners").mkdir(parents=True)
    (folder / "learners" / "means.py").write_text(LEARNER)
    words = ["--config.learner=learners.means:ShrunkMeans", f"--config.stream={small_stream}"]
    words.append("--run_dir=a")
    done = forked.run("launch.run", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, words=words, done=done)


@pytest.fixture
def own_folder(of_own_folder, tmp_path):
    """A copy of the folder, to be changed."""
    return shutil.copytree(of_own_folder.folder, tmp_path / "folder")


def read_run(folder, stream, *words):
    """Imports the run into a cache."""
    return forked.run(
        "launch.evaluate", "import", "a", f"--stream={stream}", "--cache=caches", *words, cwd=folder
    )


def test_a_written_learners_name_means_the_users_file_and_one_line_says_so(of_own_folder):
    said = of_own_folder.done.stderr
    assert said.count("learners/means.py is meant, not the installed learners") == 1


def test_a_learner_of_the_users_file_is_recorded_as_such(of_own_folder):
    recorded = json.loads((of_own_folder.folder / "a" / "config.json").read_text())["learner"]
    assert recorded == "own_folder.learners.means:ShrunkMeans"


def test_a_run_of_the_users_file_goes_on_by_the_same_command(of_own_folder, own_folder):
    again = forked.run("launch.run", *of_own_folder.words, cwd=own_folder)
    assert again.returncode == 0, again.stderr


def test_a_recorded_learner_of_the_users_file_needs_trust(own_folder, small_stream):
    refused = read_run(own_folder, small_stream)
    assert "add --trust=own_folder.learners.means" in refused.stderr


def test_a_trusted_learner_of_the_users_file_is_read(own_folder, small_stream):
    trusted = read_run(own_folder, small_stream, "--trust=own_folder.learners.means")
    assert trusted.returncode == 0, trusted.stderr


def test_a_recorded_name_without_the_prefix_is_this_projects_whatever_the_folder_has(
    own_folder, small_stream
):
    config = json.loads((own_folder / "a" / "config.json").read_text())
    config["learner"] = "learners.means:ShrunkMeans"
    (own_folder / "a" / "config.json").write_text(json.dumps(config))
    ours = read_run(own_folder, small_stream)
    assert ours.returncode == 2 and "'nevis_stream.learners.means'" in ours.stderr


def test_a_recorded_rule_needs_trust_and_a_written_one_does_not(tmp_path, monkeypatch):
    (tmp_path / "their_rule.py").write_text(TRAP.format(str(tmp_path / "EXECUTED")))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(user_code.Untrusted, match="add --trust=their_rule"):
        load_stream(RULE, trust=())
    assert executed(tmp_path) == []
    with pytest.raises(BadInput, match="has no attribute 'RULE'"):
        load_stream(RULE, trust=["their_rule"])
    assert executed(tmp_path) == ["their_rule"]
    with pytest.raises(BadInput, match="has no attribute 'RULE'"):
        get("their_rule:RULE")


@pytest.mark.parametrize("name", [":X", ".x:X", "a..b:X", "../x:X"])
def test_a_name_of_no_module_is_no_file_of_the_users(name, monkeypatch):
    monkeypatch.setattr(user_code._finder, "folders", [""])
    assert user_code.resolve_written_name(name) == name


@pytest.mark.parametrize(
    "features",
    [
        {"pythonClassName": "their_feature.X"},
        {"python_class_name": "their_feature.X"},
        {"type": "their_feature.X", "content": {}},
        {
            "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
            "featuresDict": {"features": {"image": {"pythonClassName": "their_feature.X"}}},
        },
    ],
)
def test_a_data_set_imports_no_class_of_its_own(tmp_path, monkeypatch, features):
    (tmp_path / "their_feature.py").write_text(TRAP.format(str(tmp_path / "EXECUTED")))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "features.json").write_text(json.dumps(features))
    with pytest.raises(user_code.Untrusted, match=r"names the class 'their_feature\.X'"):
        open_builder(tmp_path)
    assert executed(tmp_path) == []


def test_damaged_features_are_an_error(tmp_path):
    (tmp_path / "features.json").write_text("[" * 100_000)
    with pytest.raises(BadInput, match=r"features\.json: "):
        open_builder(tmp_path)
