"""Runs from beginning to end: what is recorded, what is refused, what is repaired."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from nevis_stream.errors import BadInput, LearnerFault, RunLocked, RunWarning
from nevis_stream.learner import Predictor, Silent
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.storage import lock_exclusively
from tests import toy

LEARNER = toy.ToyLearner()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("reference")
    return run(LEARNER, toy.stream(), run_dir, keep="all")


def test_the_ledger_tells_everything(reference):
    assert reference.complete
    header = reference.header
    assert (header.learner, header.stream, header.tasks, header.events) == (
        "ToyLearner",
        "toy",
        4,
        8,
    )
    assert header.flops == {"pretrain": {"-": 7}}
    train = reference.of_kind(TrainRecord)
    assert [t.task_id for t in train] == ["alpha", "beta", "gamma", "alpha_2"]
    assert train[0].flops == {"train": {"0": 40, "1": 44, "2": 48}, "select": {"-": 5}}
    assert train[2].chosen == 2
    assert [t.trial for t in train[2].trials] == [0, 1, 2]
    predict = reference.of_kind(PredictRecord)
    assert [p.metric for p in predict] == ["error_rate"] * 2 + [
        "mean_average_precision",
        "error_rate",
    ]
    assert all(p.flops == {"predict": {"2": p.n}} and len(p.others) == 2 for p in predict)
    ids = {trial.predictor_id for t in train for trial in t.trials}
    assert len(ids) == 12


def test_outcomes_give_the_ledgers_error_again(reference):
    for record in reference.of_kind(PredictRecord):
        with np.load(reference.run_dir / record.outcomes, allow_pickle=False) as outcomes:
            ids = outcomes["sample_id"]
            assert len(set(ids)) == len(ids) == record.n
            assert all(name.count("/") == 2 for name in ids)
            assert outcomes["confidence"].shape == outcomes["correct"].shape
            if record.metric == "error_rate":
                assert 1 - outcomes["correct"].mean() == pytest.approx(record.error)


def test_a_repeat_shares_its_samples(reference):
    first, *_, repeat = reference.of_kind(PredictRecord)
    ids = [np.load(reference.run_dir / r.outcomes)["sample_id"] for r in (first, repeat)]
    assert (ids[0] == ids[1]).all()
    assert first.predictor_id != repeat.predictor_id


def test_two_runs_are_identical(reference, tmp_path):
    again = run(LEARNER, toy.stream(), tmp_path, keep="all")
    assert again.path.read_bytes() == reference.path.read_bytes()


def test_another_seed_is_another_run(reference, tmp_path):
    other = run(LEARNER, toy.stream(), tmp_path, keep="all", seed=1)
    assert other.header.config_hash != reference.header.config_hash
    assert [p.value for p in other.of_kind(PredictRecord)] != [
        p.value for p in reference.of_kind(PredictRecord)
    ] or (
        np.load(other.run_dir / other.of_kind(PredictRecord)[0].outcomes)["confidence"]
        != np.load(reference.run_dir / reference.of_kind(PredictRecord)[0].outcomes)["confidence"]
    ).any()


def test_to_pandas(reference):
    table = reference.to_pandas()
    assert list(table["task_id"]) == ["alpha", "beta", "gamma", "alpha_2"]
    assert list(table["train_flops"]) == [132] * 4
    assert list(table["total_flops"]) == [132 + 5 + 12] * 4


def test_keep_chosen_answers_with_the_chosen_only(tmp_path):
    ledger = run(LEARNER, toy.stream(), tmp_path)
    assert all(p.others == () for p in ledger.of_kind(PredictRecord))
    remaining = sorted(p.name for p in (tmp_path / "checkpoints" / "0000-alpha").iterdir())
    assert remaining == ["manifest.json", "predictor-002.safetensors", "state.safetensors"]


def test_meta_train_protocol_judges_dev_test_of_s_tr(tmp_path):
    ledger = run(LEARNER, toy.stream(), tmp_path, protocol="meta_train")
    assert [(p.task_id, p.split) for p in ledger.of_kind(PredictRecord)] == [
        ("alpha", "dev_test"),
        ("beta", "dev_test"),
    ]


def test_a_complete_run_is_left_alone(reference):
    before = reference.path.stat().st_mtime_ns
    run(LEARNER, toy.stream(), reference.run_dir, keep="all")
    assert reference.path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"seed": 5}, "seed: there 0, now 5"),
        ({"learner": replace(LEARNER, steps=5)}, f"options.steps: there {LEARNER.steps}, now 5"),
        (
            {
                "stream": toy.Stream.from_datasets(
                    "toy", [toy.blobs("alpha", seed=9), toy.blobs("beta")], [1992, 1998], 1
                )
            },
            'stream_digest: there "[0-9a-f]+", now "[0-9a-f]+"',
        ),
    ],
)
def test_another_config_in_the_same_directory_is_refused(tmp_path, change, differs):
    arguments = {"learner": LEARNER, "stream": toy.stream(), "seed": 0}
    run(**arguments, run_dir=tmp_path)
    with pytest.raises(
        BadInput, match=rf"contains another run \({differs}\)\. Choose another run_dir"
    ):
        run(**(arguments | change), run_dir=tmp_path)


def test_a_damaged_config_is_not_called_another_run(tmp_path):
    run(LEARNER, toy.stream(), tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BadInput, match=r"config\.json: "):
        run(LEARNER, toy.stream(), tmp_path)


def test_a_second_process_is_refused(tmp_path):
    with (
        lock_exclusively(tmp_path / "lock"),
        pytest.raises(RunLocked, match="choose another --run_dir"),
    ):
        run(LEARNER, toy.stream(), tmp_path)


def test_unknown_choices_are_named(tmp_path):
    with pytest.raises(BadInput, match="'al'.*'all'"):
        run(LEARNER, toy.stream(), tmp_path, keep="al")
    with pytest.raises(BadInput, match="'meta'.*meta_test"):
        run(LEARNER, toy.stream(), tmp_path, protocol="meta")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": {"steps": 5}}, "config: learner is None, not a string"),
        ({"config": {"learner": 7}}, "config: learner is 7, not a string"),
        ({"config": {"learner": "x", "label": 7}}, "config: label is 7, not a string"),
        (
            {"config": {"learner": "x", "a": {"b": [1, math.inf]}}},
            "a.b.1 is inf, which no JSON",
        ),
        ({"config": {"learner": "x", "a": {1}}}, "a is .1., which no JSON file keeps. Valid: "),
        ({"seed": -1}, "seed is -1; valid: whole numbers from 0"),
        ({"seed": True}, "seed is True"),
        ({"seed": 2**63}, "seed is 9223372036854775808"),
    ],
)
def test_a_config_that_cannot_be_recorded_is_refused_before_anything_is_computed(
    tmp_path, arguments, message
):
    class Expensive(toy.ToyLearner):
        def init(self, ctx):
            raise AssertionError("init was called")

    with pytest.raises(BadInput, match=message):
        run(Expensive(), toy.stream(), tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_a_label_names_the_run_and_progress_is_shown(tmp_path, capsys):
    ledger = run(LEARNER, toy.stream(), tmp_path / "shown", label="mine")
    assert ledger.header.learner == "mine"
    assert "mine seed 0: 1992 alpha: error " in capsys.readouterr().err
    run(LEARNER, toy.stream(), tmp_path / "silent", progress=Silent())
    assert not capsys.readouterr().err


class Interrupted(Exception):
    pass


@dataclass(frozen=True)
class StopsAt(toy.ToyLearner):
    """Raises when it is to train on its n-th task."""

    task: int = 3

    def train(self, task, state, ctx):
        if state["met"] == self.task:
            raise Interrupted
        return super().train(task, state, ctx)


def interrupted(run_dir, at):
    with pytest.raises(Interrupted):
        run(StopsAt(task=at), toy.stream(), run_dir, keep="all", config={"learner": "ToyLearner"})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The ledger of a run that nothing happens to."""
    folder, config = tmp_path_factory.mktemp("whole"), {"learner": "ToyLearner"}
    return run(LEARNER, toy.stream(), folder, keep="all", config=config).path.read_bytes()


@pytest.mark.parametrize("event", ["0000-alpha", "0002-beta", "0004-gamma"])
@pytest.mark.parametrize(
    "file", ["manifest.json", "state.safetensors", "predictor-002.safetensors"]
)
@pytest.mark.parametrize("damage", [pytest.param("truncated", marks=pytest.mark.slow), "altered"])
def test_a_damaged_checkpoint_is_named_and_made_again_from_the_one_before(
    tmp_path, whole, event, file, damage
):
    """Whether the newest checkpoint (the state) or an older one (a predictor that the learner asks
    for) is damaged.
    """
    interrupted(tmp_path / "hurt", at=3)
    target = tmp_path / "hurt" / "checkpoints" / event / file
    data = bytearray(target.read_bytes())
    if damage == "truncated":
        target.write_bytes(data[:-5])
    else:
        data[len(data) // 2] ^= 4
        target.write_bytes(data)
    arguments = {"keep": "all", "config": {"learner": "ToyLearner"}}
    if event == "0004-gamma" or file != "state.safetensors":  # an old state is never read again
        with pytest.warns(
            RunWarning,
            match=rf"{event}/{file}: its content does not match|{event}/{file}: missing or unread",
        ):
            mended = run(LEARNER, toy.stream(), tmp_path / "hurt", **arguments)
    else:
        mended = run(LEARNER, toy.stream(), tmp_path / "hurt", **arguments)
    assert mended.path.read_bytes() == whole


def test_a_chain_of_damaged_checkpoints_is_made_again_from_the_start(tmp_path):
    expected = run(
        LEARNER, toy.stream(), tmp_path / "whole", keep="all", config={"learner": "ToyLearner"}
    )
    interrupted(tmp_path / "hurt", at=3)
    for file in (tmp_path / "hurt" / "checkpoints").rglob("state.safetensors"):
        file.write_bytes(b"")
    with pytest.warns(RunWarning) as warned:
        mended = run(
            LEARNER, toy.stream(), tmp_path / "hurt", keep="all", config={"learner": "ToyLearner"}
        )
    assert len(warned) == 4  # three tasks and init
    assert mended.path.read_bytes() == expected.path.read_bytes()


def answers(function):
    @dataclass(frozen=True)
    class Answering(toy.ToyLearner):
        def predict(self, predictor, images, ctx):
            return function(super().predict(predictor, images, ctx))

    return Answering()


def with_nan(p):
    p[3, 0] = np.nan
    return p


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: p[:-1],
            r"predict returned shape \(11, 3\); 12 samples of 3 classes need \(12, 3\)",
        ),
        (lambda p: np.concatenate([p, p]), r"shape \(24, 3\)"),
        (with_nan, r"not finite for sample 3 \(1 such samples\)"),
        (lambda p: p * 2, "add up to 2, not 1|probabilities are in"),
        (lambda p: -p, "probabilities are in"),
        (lambda p: None, "returned NoneType|shape"),
        (lambda p: "probably", "returned str, not an array"),
    ],
)
def test_a_wrong_answer_names_learner_and_task(tmp_path, change, message):
    with pytest.raises(LearnerFault, match=rf"learner Answering, task 'alpha': .*({message})"):
        run(answers(change), toy.stream(), tmp_path)
    assert len(Ledger(tmp_path).records) == 2  # what was trained is kept


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([], "must return .state, predictors."),
        ([{"frequencies": 1}], "must return .state, predictors."),
        (
            [Predictor({}, trial=1), Predictor({}, trial=1)],
            "two predictors have the same trial number",
        ),
        ([Predictor({}, info={"x": float("nan")})], "info is not valid JSON"),
        ([Predictor({}, info={"x": np.float32(1)})], "info is not valid JSON"),
    ],
)
def test_a_wrong_return_of_train_is_named(tmp_path, returned, message):
    class Wrong(toy.ToyLearner):
        def train(self, task, state, ctx):
            return state, returned

    with pytest.raises(LearnerFault, match=f"learner Wrong, task 'alpha': .*{message}"):
        run(Wrong(), toy.stream(), tmp_path / "described")
    # as the config has it
    with pytest.raises(LearnerFault, match=f"learner my own, task 'alpha': .*{message}"):
        run(
            Wrong(),
            toy.stream(),
            tmp_path / "named",
            config={"learner": "wrong", "label": "my own"},
        )


def test_a_state_that_cannot_be_saved_is_named(tmp_path):
    class Wrong(toy.ToyLearner):
        def init(self, ctx):
            return {"model": object()}

    with pytest.raises(BadInput, match=r"state\['model'\]: object cannot be saved"):
        run(Wrong(), toy.stream(), tmp_path)

    class Fourier(toy.ToyLearner):
        def init(self, ctx):
            return {"w": np.ones(3, complex)}

    with pytest.raises(BadInput, match=r"state\['w'\]: an array of complex128 cannot be saved"):
        run(Fourier(), toy.stream(), tmp_path / "complex")


def test_map_without_positions_gives_the_same(reference, tmp_path):
    """How often positions are saved changes nothing."""
    ledger = run(LEARNER, toy.stream(), tmp_path, keep="all", checkpoint_seconds=0)
    assert ledger.path.read_bytes() == reference.path.read_bytes()


def test_config_and_stream_files(reference):
    config = json.loads((reference.run_dir / "config.json").read_text())
    assert config["options"] == {"seconds": 0.0, "steps": 4, "trials": 3}
    assert config["config_hash"] == reference.header.config_hash
    assert (reference.run_dir / "stream.csv").read_text() == toy.stream().csv
    assert "seconds" not in reference.path.read_text()
