"""Pre-trained weights: the file and its facts, importing, the job, and the learners that start from
it.
"""

import dataclasses
import errno
import json
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import safetensors.numpy

from nevis_stream.analysis.points import sum_phase_flops
from nevis_stream.configs import pretraining, run_config
from nevis_stream.configs.recorded import load_learner
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.learner import Context
from nevis_stream.learners.parts import weights
from nevis_stream.learners.parts.baseline import Baseline
from nevis_stream.learners.parts.initialisation import PRETRAINED, FromPretrained, FromRelated
from nevis_stream.learners.parts.model import Network, initialise_program
from nevis_stream.learners.parts.recipe import Recipe
from nevis_stream.learners.parts.search import RandomSearch
from nevis_stream.progress import Silent
from nevis_stream.run_directory.config import read_values
from nevis_stream.run_directory.records import TrainRecord
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import Checkpoint, to_host
from nevis_stream.streams.stream import Stream
from tests import forked, toy

NETWORK = Network(
    "resnet", (("stage_sizes", (1,)), ("stem", "strided"), ("width", 4)), resolution=8
)
FACTS = weights.Facts(weights.describe_network(NETWORK), "shapes", 12345)
SPACE = {"learning_rate": (0.02, 0.05), "label_smoothing": (0.0, 0.1)}


def variables(seed=0):
    return to_host(jax.jit(initialise_program(NETWORK, 64))(np.asarray([seed, 1, 2, 3], np.uint32)))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "made.safetensors"
    path.write_bytes(weights.encode(variables(), FACTS))
    return path


def learner(initialisation):
    return Baseline(
        initialisation, RandomSearch(2, SPACE), Recipe(NETWORK, steps=6, validate_every=3)
    )


def config(**options):
    created = run_config.make_default("indep")
    created.network.update(name="resnet", stage_sizes=(1,), width=4, stem="strided", resolution=8)
    created.train.update(steps=20, validate_every=5)
    created.search.trials = 2
    created.update_from_flattened_dict(options)
    return run_config.resolve(created)


def test_a_file_gives_back_the_backbone_and_its_facts(file):
    assert weights.read_facts(file) == FACTS
    loaded, created = weights.load(file, NETWORK), variables()
    assert set(loaded["params"]) == {"backbone"}
    expected = {
        "params": {"backbone": created["params"]["backbone"]},
        "batch_stats": created["batch_stats"],
    }
    assert jax.tree.all(jax.tree.map(np.array_equal, loaded, expected))


def test_weights_of_another_network_or_no_weights_are_refused(file, tmp_path):
    wider = Network(
        "resnet", (("stage_sizes", (1,)), ("stem", "strided"), ("width", 8)), resolution=8
    )
    with pytest.raises(
        BadInput,
        match=r"weights belong to .*'width': 4.*config has .*'width': 8.*Set config.network",
    ):
        weights.load(file, wider)
    with pytest.raises(
        BadInput, match="no such file of weights; make one with python -m launch.pretrain"
    ):
        weights.read_facts(tmp_path / "absent.safetensors")
    with pytest.raises(BadInput, match=f"{tmp_path.name}: .*Is a directory"):
        weights.read_facts(tmp_path)
    other = tmp_path / "other.safetensors"
    other.write_bytes(file.read_bytes()[:100])
    with pytest.raises(BadInput, match="not a file of weights that launch.pretrain wrote"):
        weights.read_facts(other)


def test_every_task_starts_from_the_weights_and_their_cost_is_charged_once(file, tmp_path):
    ledger = run(learner(FromPretrained(str(file), FACTS.flops)), toy.stream(), tmp_path)
    assert sum_phase_flops(ledger)["pretrain"] == ledger.header.flops["pretrain"]["-"] == 12345
    for record in ledger.of_kind(TrainRecord):
        assert {trial.info["initialised_from"] for trial in record.trials} == {PRETRAINED}
    still = Baseline(
        FromPretrained(str(file)),
        RandomSearch(1, SPACE),
        Recipe(NETWORK, steps=0, validate_every=3),
    )
    run(still, toy.stream(), tmp_path / "still")
    tree = Checkpoint(tmp_path / "still/checkpoints/0004-gamma").load("predictor-000")
    mine = variables()["params"]["backbone"]
    assert jax.tree.all(jax.tree.map(np.array_equal, tree["variables"]["params"]["backbone"], mine))


def test_the_weights_are_a_candidate_beside_the_earlier_tasks(file, tmp_path):
    ledger = run(
        learner(FromRelated(pretrained=FromPretrained(str(file), 7))), toy.stream(), tmp_path
    )
    assert ledger.header.flops == {"pretrain": {"-": 7}}
    met = []
    for record in ledger.of_kind(TrainRecord):
        info = record.trials[0].info
        assert (
            set(info["related"]) == {PRETRAINED, *met}
            and info["initialised_from"] in info["related"]
        )
        met.append(record.task_id)
    first = ledger.of_kind(TrainRecord)[0].trials[0].info
    assert first["initialised_from"] == PRETRAINED


def test_a_stand_in_shows_in_the_ledger_and_another_file_is_another_config(file, tmp_path):
    facts = weights.Facts(weights.describe_network(NETWORK), "drawn shapes", 5, "ImageNet")
    (tmp_path / "a.safetensors").write_bytes(weights.encode(variables(), facts))
    (tmp_path / "b.safetensors").write_bytes(weights.encode(variables(1), facts))
    created = run_config.make_default("pt_isup")
    digests = []
    for name in "ab":
        created.pretrained = {"path": str(tmp_path / f"{name}.safetensors")}
        resolved = run_config.resolve(created)
        assert resolved.label == "pt_isup (stand-in: pre-trained on drawn shapes, not ImageNet)"
        assert resolved.own.pretrained.flops == 5
        assert run_config.resolve(resolved).to_dict() == resolved.to_dict()
        digests.append(resolved.own.pretrained.digest)
    assert digests[0] != digests[1]
    with pytest.raises(BadInput, match="--config.pretrained.path"):
        run_config.resolve(run_config.make_default("pt_ft")).build()


class Stop(Exception):
    """A run is interrupted."""


class StopAt(Silent):
    """Interrupts a run at an event."""

    def __init__(self, event):
        self.wanted = event

    def event(self, index, events, description):
        if index == self.wanted:
            raise Stop


def start_from(path, run_dir, progress=None):
    created = run_config.make_default("pt_isup")
    created.pretrained.path = str(path)
    created.train.update(steps=6, validate_every=3)
    created = run_config.resolve(created)
    return run(
        created.build(),
        toy.stream(),
        run_dir,
        config=run_config.to_json(created),
        progress=progress,
    )


@pytest.fixture(scope="module")
def moved(file, tmp_path_factory):
    """A folder with a run that was stopped and went on with a copy of the weights in another place,
    and its ledger.
    """
    folder = tmp_path_factory.mktemp("moved")
    with pytest.raises(Stop):
        start_from(file, folder / "run", StopAt(4))
    (folder / "copy.safetensors").write_bytes(file.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ledger = start_from("copy.safetensors", folder / "run")
    return SimpleNamespace(folder=folder, ledger=ledger)


def test_weights_are_known_by_their_content_not_by_their_place(file, moved, tmp_path):
    whole = start_from(file, tmp_path / "whole")
    for name in ("ledger.jsonl", "config.json"):
        again = (moved.folder / "run" / name).read_bytes()
        assert again == (tmp_path / "whole" / name).read_bytes()
    assert moved.ledger.header.config_hash == whole.header.config_hash
    assert str(moved.folder) not in (moved.folder / "run/config.json").read_text()


def test_a_run_does_not_go_on_with_other_weights(moved, tmp_path):
    shutil.copytree(moved.folder / "run", tmp_path / "run")
    (tmp_path / "other.safetensors").write_bytes(weights.encode(variables(1), FACTS))
    with pytest.raises(BadInput, match="another run .pretrained.digest: there "):
        start_from(tmp_path / "other.safetensors", tmp_path / "run")


def test_predictors_work_without_the_weights_and_training_does_not(moved):
    remaining = load_learner(read_values(moved.folder / "run"))
    tree = Checkpoint(moved.folder / "run/checkpoints/0004-gamma").load("predictor-000")
    images = toy.stream().splits(toy.stream().tasks[2])["test"].images
    answers = remaining.predict(tree, images, Context(path=("seed 0",), phase="predict"))
    assert answers.shape[0] == len(images)
    with pytest.raises(BadInput, match="the path of the pre-trained weights is missing"):
        remaining.initialisation.choose(None, None, NETWORK)


def test_weights_that_change_while_they_are_wanted_are_refused(file, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(file.read_bytes())
    start = FromPretrained(str(path), digest=weights.digest(path))
    path.write_bytes(weights.encode(variables(1), FACTS))
    with pytest.raises(BadInput, match="w.safetensors: the file has changed"):
        start.choose(None, None, NETWORK)


def test_the_network_is_that_of_the_weights_unless_the_config_names_one(file):
    created = run_config.make_default("pt_isup")
    created.pretrained.path = str(file)
    assert run_config.resolve(created).build().recipe.network == NETWORK
    created.network.update(name="mlp", hidden=(4,))
    assert run_config.resolve(created).build().recipe.network.name == "mlp"


def test_pre_training_on_several_tasks_learns_each_and_says_what_it_cost(tmp_path):
    stream, out = toy.stream(), tmp_path / "w.safetensors"
    facts = pretraining.pretrain(config(), stream, ["meta_train"], out, "something large")
    record = json.loads((tmp_path / "w.safetensors.json").read_text())
    assert facts == weights.read_facts(out)
    assert (
        facts.stand_in == "something large"
        and facts.trained_on == "the 2 data sets of the meta-train part of toy"
    )
    spent = sum(sum(by_trial.values()) for by_trial in record["flops"].values())
    assert facts.flops == spent > 0 and set(record["flops"]) == {"pretrain", "validate"}
    assert set(record["chosen"]["dev_errors"]) == {"alpha", "beta"}
    curve = record["chosen"]["curve"]
    assert [look[0] for look in curve] == [0, 5, 10, 15, 20] and curve[-1][2] < curve[0][2]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "w.safetensors",
        "w.safetensors.json",
    ]
    weights.load(out, NETWORK)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (["delta"], "'delta'"),
        (
            ["meta_train", "alpha"],
            "--tasks=meta_train,alpha: meta_train means all meta-train tasks",
        ),
        (["alpha", "beta", "alpha"], "task 'alpha' is named more than once"),
    ],
)
def test_wrong_tasks_are_refused(tmp_path, tasks, message):
    with pytest.raises(BadInput, match=message):
        pretraining.pretrain(config(), toy.stream(), tasks, tmp_path / "w.safetensors")


def test_a_stream_without_meta_train_tasks_is_told(tmp_path):
    toys = toy.stream()
    judged = [dataclasses.replace(task, meta_split="test") for task in toys.tasks]
    stream = Stream(
        "judged", judged, {task.dataset_id: toys.dataset(task) for task in judged}.__getitem__
    )
    with pytest.raises(
        BadInput,
        match="stream judged has no meta-train tasks; choose some of its tasks: alpha, beta",
    ):
        pretraining.pretrain(config(), stream, ["meta_train"], tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"search.pruning": "halving"},
            "config.search.pruning: pre-training does not prune trials",
        ),
        (
            {"search.space": "large"},
            "config.search.space: pre-training searches only the small space",
        ),
        ({"train.frozen": True}, "config.train.frozen: pre-training trains the backbone"),
        ({"train.steps": 0}, "config.train.steps is 0, so nothing would be trained"),
    ],
)
def test_what_pre_training_would_not_follow_is_refused(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        pretraining.pretrain(config(**changes), toy.stream(), ["alpha"], tmp_path / "w.safetensors")
    assert not list(tmp_path.iterdir())


def test_another_job_does_not_write_over_a_file(tmp_path):
    out = tmp_path / "w.safetensors"
    pretraining.pretrain(config(), toy.stream(), ["alpha"], out)
    remaining = {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()
    }
    # nothing is done again
    assert pretraining.pretrain(config(), toy.stream(), ["alpha"], out) == weights.read_facts(out)
    longer = config(**{"train.steps": 21})
    with pytest.raises(
        BadInput,
        match=r"other flags wrote this file \(config.train.steps: there 20, now 21\)",
    ):
        pretraining.pretrain(longer, toy.stream(), ["alpha"], out)
    with pytest.raises(BadInput, match=r'tasks: there \["alpha"\], now \["beta"\]'):
        pretraining.pretrain(config(), toy.stream(), ["beta"], out)
    with pytest.raises(BadInput, match='stand_in: there "", now "ImageNet"'):
        pretraining.pretrain(config(), toy.stream(), ["alpha"], out, "ImageNet")
    assert {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()
    } == remaining
    out.write_bytes(weights.encode(variables(), FACTS))  # no longer what the job made
    with pytest.raises(BadInput, match="w.safetensors: this file exists already"):
        pretraining.pretrain(config(), toy.stream(), ["alpha"], out)


def test_after_trials_that_all_diverged_another_config_may_write_there(tmp_path):
    wild = config(**{"search.learning_rate": (1e5, 1e6)})
    with (
        pytest.warns(RunWarning),
        pytest.raises(BadInput, match="all 2 trials diverged: lower config.search.learning_rate"),
    ):
        pretraining.pretrain(wild, toy.stream(), ["alpha"], tmp_path / "w.safetensors")
    assert not list(tmp_path.iterdir())


def test_stopped_pre_training_goes_on_to_the_same_file(tmp_path):
    """Stopped in the second trial: the first is read back, the second goes on from its saved
    position.
    """

    class Stop(Exception):
        pass

    class Stopping:
        looks = 0

        def trial(self, *_):
            pass

        def step(self, *_):
            self.looks += 1
            if self.looks == 6:
                raise Stop

    pretraining.pretrain(config(), toy.stream(), ["meta_train"], tmp_path / "whole.safetensors")
    with pytest.raises(Stop):
        pretraining.pretrain(
            config(),
            toy.stream(),
            ["meta_train"],
            tmp_path / "w.safetensors",
            checkpoint_seconds=0,
            progress=Stopping(),
        )
    assert list((tmp_path / "w.safetensors.progress").glob("*/trial-001.step-*"))
    with pytest.raises(
        BadInput,
        match="an interrupted command with other flags left this folder .* delete the folder",
    ):
        pretraining.pretrain(config(), toy.stream(), ["alpha"], tmp_path / "w.safetensors")
    pretraining.pretrain(config(), toy.stream(), ["meta_train"], tmp_path / "w.safetensors")
    for suffix in ("safetensors", "safetensors.json"):
        assert (tmp_path / f"w.{suffix}").read_bytes() == (
            tmp_path / f"whole.{suffix}"
        ).read_bytes()


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_an_import_that_fails_names_the_file(tmp_path, monkeypatch, suffix):
    source, out = tmp_path / f"theirs.{suffix}", tmp_path / "ours.safetensors"
    arrays = {"bn1.weight": np.ones(4, np.float32)}
    if suffix == "npz":
        np.savez(source, **arrays)
    else:
        safetensors.numpy.save_file(arrays, source)
    with pytest.raises(
        BadInput,
        match=rf"theirs.{suffix}: layout 'timm_resnet': tensor 'conv1.weight' ",
    ):
        pretraining.import_weights(config(), source, "timm_resnet", out, "ImageNet", 1)
    source.unlink()
    with pytest.raises(BadInput, match=rf"theirs.{suffix}: .*no such file"):
        pretraining.import_weights(config(), source, "timm_resnet", out, "ImageNet", 1)
    source.mkdir()
    with pytest.raises(BadInput, match=rf"theirs.{suffix}: .*Is a directory"):
        pretraining.import_weights(config(), source, "timm_resnet", out, "ImageNet", 1)

    def refuse(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)  # root may read everything
    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(BadInput, match=rf"theirs.{suffix}: .*Permission denied"):
        pretraining.import_weights(config(), source, "timm_resnet", out, "ImageNet", 1)
    with pytest.raises(BadInput, match=rf"theirs.{suffix}: .*Permission denied"):
        weights.read_facts(source)


@pytest.fixture(scope="module", params=["npz", "safetensors"])
def theirs(request, tmp_path_factory):
    """A file of a ResNet of two stages under torchvision's names, its arrays, the network that they
    are for, and the words of a command that imports them.
    """
    options = {"stage_sizes": (1, 1), "width": 4, "stem": "standard", "padding": "torch"}
    network = Network("resnet", tuple(sorted(options.items())), 32)
    random = np.random.RandomState(0)
    names = {"conv1.weight": (4, 3, 7, 7)} | {
        f"bn1.{n}": (4,) for n in ("weight", "bias", "running_mean", "running_var")
    }
    for layer, (before, width) in enumerate(((4, 4), (4, 8)), start=1):
        names |= {
            f"layer{layer}.0.conv1.weight": (width, before, 3, 3),
            f"layer{layer}.0.conv2.weight": (width, width, 3, 3),
        }
        norms = [f"layer{layer}.0.bn1", f"layer{layer}.0.bn2"]
        if before != width:
            names[f"layer{layer}.0.downsample.0.weight"] = (width, before, 1, 1)
            norms.append(f"layer{layer}.0.downsample.1")
        names |= {
            f"{norm}.{n}": (width,)
            for norm in norms
            for n in ("weight", "bias", "running_mean", "running_var")
        }
    arrays = {
        name: random.uniform(0.5, 1, shape).astype(np.float32) for name, shape in names.items()
    }
    source = tmp_path_factory.mktemp("theirs") / f"theirs.{request.param}"
    if request.param == "npz":
        np.savez(source, **arrays)
    else:
        safetensors.numpy.save_file(arrays, source)
    words = [
        "launch.pretrain",
        "--config=indep",
        "--config.network.name=resnet",
        "--config.network.stage_sizes=(1,1)",
        "--config.network.width=4",
        "--config.network.stem=standard",
        "--config.network.padding=torch",
        f"--import_file={source}",
    ]
    return SimpleNamespace(words=words, arrays=arrays, network=network)


IMPORT = ["--layout=torchvision_resnet", "--trained_on=ImageNet"]


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory):
    """The file that the command makes of it."""
    out = tmp_path_factory.mktemp("ours") / "ours.safetensors"
    done = forked.alone(*theirs.words, *IMPORT, "--flops=1e18", f"--out={out}")
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    "words,message",
    [
        (["--layout=torchvision_resnet"], "error: --flops"),
        (["--layout=keras", "--flops=1e18", "--trained_on=ImageNet"], "torchvision_resnet"),
        ([*IMPORT, "--flops=nan"], "--flops=nan: "),
        (
            [*IMPORT, "--flops=inf"],
            "--flops=inf: the cost of the weights must be a finite number",
        ),
        (
            ["--layout=torchvision_resnet", "--flops=1e18", "--trained_on="],
            "error: --trained_on",
        ),
    ],
)
def test_an_import_whose_facts_are_missing_or_wrong_is_refused(theirs, tmp_path, words, message):
    out = tmp_path / "ours.safetensors"
    refused = forked.run(*theirs.words, *words, f"--out={out}")
    assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr and not out.exists()


@pytest.mark.slow
def test_weights_of_another_library_are_those_that_a_learner_starts_from(theirs, ours):
    expected = weights.convert(theirs.arrays, "torchvision_resnet", theirs.network.backbone())
    result = weights.load(ours, theirs.network)["params"]["backbone"]
    expected = expected["params"]["backbone"]
    assert jax.tree.all(jax.tree.map(np.array_equal, result, expected))


@pytest.mark.slow
def test_the_cost_of_imported_weights_is_kept(ours):
    assert weights.read_facts(ours).flops == 10**18


@pytest.mark.slow
def test_the_same_import_may_be_repeated(theirs, ours):
    again = forked.run(*theirs.words, *IMPORT, "--flops=1e18", f"--out={ours}")
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_another_import_does_not_write_over_a_file(theirs, ours):
    refused = forked.run(*theirs.words, *IMPORT, "--flops=1e17", f"--out={ours}")
    assert refused.returncode == 2 and f"{ours}: this file exists already" in refused.stderr
