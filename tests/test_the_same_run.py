"""A run is the run that was begun, it keeps what it is given, and a cost that nobody counted is
unknown.
"""

import json
import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.points import point, sum_phase_flops
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.errors import BadInput, LearnerFault, RunWarning
from nevis_stream.learner import Context, Predictor
from nevis_stream.progress import Progress, Silent
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import EventWorkspace
from tests import toy

QUIET = {"progress": Silent(), "tensorboard": False}


@dataclass(frozen=True)
class Frequencies:
    """Answers with the class frequencies; `train_flops` None: nothing is charged in training."""

    train_flops: int | None = 1
    predict_flops: int | None = 1

    def init(self, ctx):
        return {}

    def train(self, task, state, ctx):
        jax.jit(lambda x: x + 1)(np.ones(3))  # compiled, not through the context
        if self.train_flops is not None:
            ctx.charge(self.train_flops)
        labels = task.train.labels
        if labels.ndim == 2:
            return state, [Predictor({"p": labels.mean(0), "single": False})]
        counts = np.bincount(labels, minlength=task.num_classes)
        return state, [Predictor({"p": counts / counts.sum(), "single": True})]

    def predict(self, predictor, images, ctx):
        if self.predict_flops is not None:
            ctx.charge(self.predict_flops)
        return np.tile(predictor["p"], (len(images), 1))


# What nobody counted


@pytest.mark.parametrize(
    ("learner", "missing"),
    [
        (Frequencies(None, None), "train and predict"),
        (Frequencies(None, 3), "train"),
        (Frequencies(3, None), "predict"),
    ],
)
def test_cost_that_nobody_counted_is_unknown(learner, missing, tmp_path):
    with pytest.warns(RunWarning) as caught:
        ledger = run(learner, toy.stream(), tmp_path / "a", **QUIET)
    told = [str(warning.message) for warning in caught if "charged" in str(warning.message)]
    assert len(told) == 1 and f"nothing was charged to {missing}, so" in told[0]
    result = point(ledger)
    assert math.isnan(result.full_total) and f"charged to {missing} (" in result.reason
    assert math.isnan(result.paper_total) == ("train" in missing)
    assert math.isnan(sum_phase_flops(ledger)[missing.split()[-1]])
    assert ledger.to_pandas()["total_flops"].isna().all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(Frequencies(), toy.stream(), tmp_path / "b", **QUIET)
    runs, _ = read_runs([tmp_path / "a", tmp_path / "b"])
    points = {each.group.runs[0].name: each for each in list_method_points(group_by_seed(runs))}
    assert not points["a"].on_full_front and points["b"].on_full_front


def test_nothing_is_known_to_cost_nothing_if_it_is_said(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger = run(Frequencies(0, 0), toy.stream(), tmp_path, **QUIET)
    assert point(ledger).full_total == 0 and not point(ledger).reason


def test_sums_of_the_flops_column_do_not_overflow(tmp_path):
    large = 6 * 10**18
    ledger = run(Frequencies(large), toy.stream(), tmp_path / "large", **QUIET)
    column = ledger.to_pandas()["train_flops"]
    assert column.sum() == len(column) * large > 2**63
    small = run(Frequencies(7), toy.stream(), tmp_path / "small", **QUIET).to_pandas()
    assert small["train_flops"].dtype == np.int64


# The run that was begun


def test_the_header_decides_where_the_config_is_missing(tmp_path):
    run(Frequencies(), toy.stream(), tmp_path, **QUIET)
    text, ledger = (tmp_path / "config.json").read_text(), (tmp_path / "ledger.jsonl").read_bytes()
    lines = ledger.splitlines(keepends=True)
    (tmp_path / "config.json").unlink()
    for kept in (len(lines), 3, 0):  # complete, begun, and only `init` is done
        (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines[:kept]))
        for other in (toy.ToyLearner(), Frequencies(2)):
            with pytest.raises(
                BadInput, match="contains another run .(learner|config hash): there"
            ):
                run(other, toy.stream(), tmp_path, **QUIET)
        with pytest.raises(BadInput, match="seed: there 0, now 1"):
            run(Frequencies(), toy.stream(), tmp_path, seed=1, **QUIET)
        assert not (tmp_path / "config.json").exists()
    run(Frequencies(), toy.stream(), tmp_path, **QUIET)
    assert (tmp_path / "ledger.jsonl").read_bytes() == ledger
    assert (tmp_path / "config.json").read_text() == text
    other = json.loads(text) | {"config_hash": "0" * 16}
    lines[0] = json.dumps(json.loads(lines[0]) | {"config_hash": "0" * 16}).encode() + b"\n"
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines))  # of another run than config.json
    with pytest.raises(BadInput, match=f"config hash: there {other['config_hash']}"):
        run(Frequencies(), toy.stream(), tmp_path, **QUIET)


def test_an_unfinished_run_whose_flops_were_counted_otherwise_is_refused(tmp_path):
    def without_version(folder):
        config = json.loads((folder / "config.json").read_text())
        assert config.pop("conventions") == {"flops": 2}
        (folder / "config.json").write_text(json.dumps(config, indent=1))

    ledger = run(Frequencies(), toy.stream(), tmp_path, **QUIET)
    without_version(tmp_path)  # as before FLOPs had a version
    assert run(Frequencies(), toy.stream(), tmp_path, **QUIET).records == ledger.records
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:4]))
    with pytest.raises(BadInput, match="begun with version 1 of 'flops'.*branches that a loop's"):
        run(Frequencies(), toy.stream(), tmp_path, **QUIET)


def test_a_missing_config_does_not_hide_how_flops_were_counted(tmp_path):
    ledger = run(Frequencies(), toy.stream(), tmp_path, **QUIET)
    whole, environment = ledger.path.read_bytes(), tmp_path / "environment.jsonl"
    facts = json.loads(environment.read_text())
    assert facts.pop("conventions") == {"flops": 2}
    environment.write_text(json.dumps(facts) + "\n")  # as before FLOPs had a version
    lines = whole.splitlines(keepends=True)
    for kept in (lines[:4], []):  # begun, and only `init` is done
        ledger.path.write_bytes(b"".join(kept))
        (tmp_path / "config.json").unlink(missing_ok=True)
        with pytest.raises(BadInput, match="begun with version 1 of 'flops'"):
            run(Frequencies(), toy.stream(), tmp_path, **QUIET)
    ledger.path.write_bytes(whole)
    assert run(Frequencies(), toy.stream(), tmp_path, **QUIET).complete


class Lines(Progress):
    def __init__(self):
        self.lines = []

    def result(self, text):
        self.lines.append(text)


def test_a_complete_run_shows_its_results_again(tmp_path):
    first, again = Lines(), Lines()
    for progress in (first, again):
        run(Frequencies(), toy.stream(), tmp_path, progress=progress, tensorboard=False)
    assert again.lines == first.lines and len(first.lines) == 4 and "error 0." in first.lines[0]


# What a learner gives is kept, or refused

OPTIMISER = optax.adam(0.1)


@dataclass(frozen=True)
class Adam:
    """Trains with optax, and saves a position after every step; dies at a step of the first task
    if `dies` is given.
    """

    dies: int | None = None

    def init(self, ctx):
        return {}

    def train(self, task, state, ctx):
        update = ctx.jit(adam_step)
        params = {"w": jnp.zeros(task.num_classes)}
        begin = (params, OPTIMISER.init(params), ctx.key)
        done, (params, moments, key) = ctx.restore(like=begin) or (0, begin)
        for step in range(done, 5):
            if step == self.dies:
                raise KeyboardInterrupt
            params, moments, key = update(params, moments, key)
            ctx.checkpoint(step + 1, lambda: (params, moments, key))  # noqa: B023 - called at once
        return state, [
            Predictor({"w": np.asarray(params["w"]), "multi": task.kind != "single_label"})
        ]

    def predict(self, predictor, images, ctx):
        ctx.charge(1)
        p = jax.nn.sigmoid if predictor["multi"] else jax.nn.softmax
        return np.tile(p(predictor["w"]), (len(images), 1))


def adam_step(params, moments, key):
    key, noise = jax.random.split(key)
    gradients = {"w": params["w"] - jax.random.normal(noise, params["w"].shape)}
    updates, moments = OPTIMISER.update(gradients, moments)
    return optax.apply_updates(params, updates), moments, key


@pytest.mark.parametrize("dies", [1, 4])
def test_an_optax_state_survives_a_kill(dies, tmp_path):
    config = {"learner": "adam"}
    options = {"config": config, "checkpoint_seconds": 0, **QUIET}
    run(Adam(), toy.stream(), tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        run(Adam(dies), toy.stream(), tmp_path / "killed", **options)
    run(Adam(), toy.stream(), tmp_path / "killed", **options)
    ledgers = [(tmp_path / name / "ledger.jsonl").read_bytes() for name in ("whole", "killed")]
    assert ledgers[0] == ledgers[1]


class Pair(NamedTuple):
    a: np.ndarray
    b: int


def context(tmp_path):
    return Context(path=("a",), phase="train", workspace=EventWorkspace(tmp_path / "w", 0))


def test_a_namedtuple_is_refused_unless_its_structure_was_asked_for(tmp_path):
    tree = {"opt": Pair(np.ones(2, np.float32), 3), "key": jax.random.key(1)}
    ctx = context(tmp_path)
    assert ctx.restore() is None
    with pytest.raises(BadInput, match=r"\['opt'\]: Pair is a namedtuple.*ctx.restore\(like=…\)"):
        ctx.checkpoint(1, lambda: tree)
    with pytest.raises(BadInput, match="key_data"):
        ctx.checkpoint(1, lambda: tree["key"])
    ctx = context(tmp_path)
    assert ctx.restore(like=tree) is None
    with pytest.raises(LearnerFault, match="the tree is PyTreeDef.*like ="):
        ctx.checkpoint(1, lambda: {"opt": tree["opt"]})
    ctx.charge(5)
    ctx.checkpoint(1, lambda: tree)
    ctx = context(tmp_path)
    step, read = ctx.restore(like=tree)
    assert step == 1 and isinstance(read["opt"], Pair) and read["opt"].b == 3
    assert (jax.random.key_data(read["key"]) == jax.random.key_data(tree["key"])).all()
    assert ctx.meter.counts() == {"train": {"-": 5}}
    for like, message in (
        ({"opt": tree["opt"]}, "3 leaves were saved, but like has 2"),
        (
            tree | {"opt": Pair(np.ones(3, np.float32), 3)},
            r"float32\[2\] was saved, .* float32\[3\]",
        ),
    ):
        with pytest.raises(LearnerFault, match=message):
            context(tmp_path).restore(like=like)


def test_seeds_fit_the_libraries_that_take_32_bits():
    ctx = Context.standalone(seed=3)
    seeds = [ctx.seed_for("forest", i, bits=32) for i in range(1000)]
    assert len(set(seeds)) == 1000 and max(seeds) < 2**32 and max(seeds) > 2**31
    np.random.RandomState(max(seeds))
    assert ctx.seed_for("forest", 0) >> 31 == seeds[0]
    for bits in (0, 64, 32.0, "32", True):
        with pytest.raises(BadInput, match="a whole number from 1 to 63"):
            ctx.seed_for("forest", bits=bits)


@dataclass(frozen=True)
class Returns(Frequencies):
    what: str = ""

    def train(self, task, state, ctx):
        state, predictors = super().train(task, state, ctx)
        return {
            "none": None,
            "one": (state, predictors[0]),
            "only": predictors,
            "class": (state, [Predictor]),
            "none inside": (state, None),
            "empty": (state, []),
            "trial": (state, [Predictor(predictors[0].tree, trial="0")]),
            "info": (state, [Predictor(predictors[0].tree, info=[1])]),
            "namedtuple": (Pair(np.ones(2), 1), predictors),
        }[self.what]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("none", r"must return \(state, predictors\).*it returned None"),
        ("one", "instead of the list it returned Predictor"),
        ("only", "it returned list of length 1"),
        ("class", "element 0 of the list is the class Predictor"),
        ("none inside", "instead of the list it returned None"),
        ("empty", "instead of the list it returned list of length 0"),
        ("trial", "trial of predictor 0 is '0'; an int from 0 is expected"),
        ("info", "info of predictor 0 is list of length 1"),
    ],
)
def test_wrong_returns_of_train_are_named(what, message, tmp_path):
    with pytest.raises(LearnerFault, match=f"learner Returns, task .*{message}"):
        run(Returns(what=what), toy.stream(), tmp_path, **QUIET)


def test_a_state_that_would_come_back_as_a_list_is_refused(tmp_path):
    with pytest.raises(BadInput, match="state: Pair is a namedtuple"):
        run(Returns(what="namedtuple"), toy.stream(), tmp_path, **QUIET)
    assert not Ledger(tmp_path).events


def test_a_class_and_an_incomplete_learner_are_refused(tmp_path):
    with pytest.raises(
        LearnerFault, match=r"Frequencies is a class; an instance.*Frequencies\(…\)"
    ):
        run(Frequencies, toy.stream(), tmp_path, **QUIET)
    with pytest.raises(LearnerFault, match="learner object: it has no init and no train and no"):
        run(object(), toy.stream(), tmp_path, **QUIET)
    assert not list(tmp_path.iterdir())
