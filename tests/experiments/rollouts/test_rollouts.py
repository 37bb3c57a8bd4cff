"""Rollouts with small networks: training on a weighted set, curves, z_T, resuming, and the page."""

import dataclasses
import random
import shutil

import jax
import numpy as np
import pandas as pd
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments.rollouts import page, study, training
from nevis_stream.experiments.rollouts.statistics import (
    average_known,
    compute_curve,
    compute_plurality_risks,
    compute_plurality_z,
    compute_z,
    correlate,
    find_risk,
    vote_by_plurality,
)
from nevis_stream.experiments.rollouts.study import run_rollouts
from nevis_stream.experiments.rollouts.training import (
    UNKNOWN,
    ImagePool,
    Trainer,
    choose_default_data,
    draw,
    fit,
    load_pool,
)
from nevis_stream.experiments.theory.designs import Design, run_design
from nevis_stream.experiments.theory.lower_bounds import build_stalled_path
from nevis_stream.experiments.theory.populations import Population, vote_by_majority
from nevis_stream.learner import Context
from nevis_stream.storage import checkpoint
from nevis_stream.storage.checkpoint import Checkpoint
from tests import forked
from tests.experiments.rollouts.rollouts_target import made_pool, rollouts, settings
from tests.test_kill import KILLED


@pytest.fixture(scope="module")
def pool():
    return made_pool()


def test_the_network_is_the_papers():
    parameters = training.initialise(np.random.default_rng(0), 10)
    assert sum(each.size for each in jax.tree.leaves(parameters)) == 42_442


def test_draws_follow_the_distribution_as_closely_as_whole_numbers_can():
    distribution = np.array([0.5, 0.25, 0.24, 0.01])
    for seed in range(5):
        counts = np.bincount(draw(distribution, 40, np.random.default_rng(seed)), minlength=4)
        assert counts.sum() == 40 and np.all(abs(counts - 40 * distribution) < 1)
    order = draw(np.full(30, 1 / 30), 30, np.random.default_rng(0))
    assert sorted(order) == list(range(30)) and list(order) != list(range(30))


@pytest.mark.slow
def test_training_on_a_weighted_set_learns_what_has_weight(pool):
    ctx = Context.standalone(phase="train")
    errors = fit(ctx, pool, np.full(48, 1 / 48), 10, "a") != pool.labels
    assert errors.mean() < 0.35
    assert ctx.meter.counts()["train"]["-"] > ctx.meter.counts()["predict"]["-"] > 0
    dark = pool.labels == 0
    predicted = fit(ctx, pool, dark / dark.sum(), 10, "a")
    assert not predicted[dark].any() and predicted[~dark].mean() < 0.5
    again = fit(Context.standalone(phase="train"), pool, dark / dark.sum(), 10, "a")
    assert np.array_equal(predicted, again)


def test_a_trainer_continues_from_saved_predictions(pool):
    design = Design(2, 2)
    whole = Trainer(Context.standalone(phase="train"), pool, 1, [])
    run_design(Population.uniform(48), whole, design)
    assert len(whole.saved) == 4
    rest = Trainer(Context.standalone(phase="train"), pool, 1, list(whole.saved[:2]))
    run_design(Population.uniform(48), rest, design)
    assert np.array_equal(np.stack(whole.saved), np.stack(rest.saved))


def rows(*texts):
    return np.array([[c == "1" for c in text] for text in texts])


def test_curves_by_hand():
    errors = rows("1100", "0110", "0010", "0000")
    path = compute_curve(errors, Design.path(4))
    assert path.risks.tolist() == [0.5, 0.75, 0.5, 0.5]  # ties are errors
    assert path.labels.tolist() == [0, 2, 4, 5]
    deep = compute_curve(errors, Design(2, 2))
    assert np.isnan(deep.risks[[0, 2]]).all() and deep.risks[[1, 3]].tolist() == [0.75, 0.75]
    # after the first classifier 2, after the first vote 3 more, after the third classifier 1
    assert deep.labels.tolist() == [0, 2, 5, 6]


def test_a_weighted_vote_trusts_classifiers_with_less_risk():
    errors = rows("111110000000", "000000000000", "111110000000")
    path = compute_curve(errors, Design.path(3))
    assert path.weighted[2] == 0 and path.risks[2] == pytest.approx(5 / 12)


def test_z_is_one_for_the_bad_construction_and_zero_without_a_common_vote():
    population, script = build_stalled_path(6, 12)
    errors = np.stack([script.errors[(t,)] for t in range(12)])
    assert compute_z(errors, 4) == 1.0
    assert compute_z(rows("1100", "1000", "0000", "0000", "0000"), 5) == 0.0
    assert np.isnan(compute_z(rows("1000", "0100"), 2))


def test_a_vote_on_classes_by_hand():
    labels = np.zeros(5, int)
    predicted = np.array([[0, 1, 1, 1, 0], [0, 1, 2, 1, 1], [1, 2, 3, 0, 1], [2, 0, 0, 0, 2]])
    # two agree on a wrong class in columns 1 and 4; of ties the earliest, wrong in columns 2 and 3
    assert vote_by_plurality(predicted).tolist() == [0, 1, 1, 1, 1]
    assert compute_plurality_risks(predicted, labels, Design.path(4)).tolist() == [
        0.6,
        0.6,
        0.8,
        0.8,
    ]
    deep = compute_plurality_risks(predicted, labels, Design(2, 2))  # votes 0 1 1 1 0 and 1 2 3 0 1
    assert np.isnan(deep[[0, 2]]).all() and deep[[1, 3]].tolist() == [0.6, 0.6]
    # pairs err together on columns 1 2 3 | 1 2 | none | 1 2 4 | 4 | 0 4
    assert compute_plurality_z(predicted, labels, 4) == pytest.approx(np.mean([1, 1, 1, 1, 1 / 2]))
    # more than half err on columns 1, 2 and 4 alone
    assert compute_z(predicted != labels, 4) == pytest.approx(np.mean([2 / 3, 1, 1, 1, 1 / 2]))
    predicted[1, 0] = UNKNOWN
    assert np.isnan(compute_plurality_z(predicted, labels, 4))
    assert np.isfinite(compute_plurality_risks(predicted, labels, Design.path(4))).tolist() == [
        1,
        0,
        0,
        0,
    ]


def test_the_last_vote_that_labels_allow():
    errors = rows("1100", "0110", "0010", "0000")
    deep = compute_curve(errors, Design(2, 2))
    assert [find_risk(deep, labels) for labels in (2, 5, 100)] == [0.75, 0.75, 0.75]
    assert np.isnan(find_risk(deep, 1))
    path = compute_curve(
        errors, Design.path(4)
    )  # the vote of two, with a risk of 0.75, does not count
    assert [find_risk(path, labels) for labels in (0, 3, 4, 100)] == [0.5] * 4


def test_curves_of_any_depth_have_the_votes_and_labels_of_the_design():
    errors = np.random.default_rng(0).random((27, 60)) < 0.3
    deep = compute_curve(errors, Design(3, 3))
    inner = [vote_by_majority(errors[start : start + 3]) for start in range(0, 27, 3)]
    middle = [vote_by_majority(inner[start : start + 3]) for start in (0, 3, 6)]
    finished = np.isfinite(deep.risks)
    assert np.flatnonzero(finished).tolist() == [8, 17, 26]
    votes = [vote_by_majority(middle[:count]).mean() for count in (1, 2, 3)]
    assert deep.risks[finished].tolist() == pytest.approx(votes)
    assert deep.members[finished].tolist() == [1, 2, 3]
    # collected: all members but the last of each vote, at all three levels
    used = [each for number, each in enumerate(errors) if number % 3 < 2]
    used += [each for number, each in enumerate(inner) if number % 3 < 2]
    assert deep.labels[-1] == np.sum(used) + np.sum(middle[:2]) and deep.labels[0] == 0


def test_correlations_and_means_have_intervals():
    generator = np.random.default_rng(0)
    x = generator.normal(size=60)
    fit_ = correlate(x, x + generator.normal(size=60))
    assert fit_.low < 0.71 < fit_.high and fit_.n == 60 and fit_.p < 0.001
    assert np.isnan(correlate(x[:3], x[:3]).r) and np.isnan(correlate(x, np.ones(60)).r)
    value = average_known(np.array([1.0, 2.0, 3.0, np.nan]))
    assert (value.mean, value.n) == (2.0, 3) and value.low < 0 < value.high
    assert np.isnan(average_known(np.array([1.0])).low)


def test_a_study_is_resumed_and_grows(tmp_path):
    first = rollouts(tmp_path / "a")
    assert first.errors.shape == (2, 3, int(first.base.right.sum()))
    assert first.base.accuracy >= 0.7 and min(first.flops) > 0
    assert not np.array_equal(first.errors[0], first.errors[1])
    more = rollouts(tmp_path / "a", 3)
    assert np.array_equal(more.errors[:2], first.errors) and more.flops[:2] == first.flops
    with pytest.raises(BadInput, match="contains another study .*seed: there 0, now 1"):
        rollouts(tmp_path / "a", seed=1)
    deep = rollouts(tmp_path / "b", 1, depth=2, width=2)
    assert np.array_equal(deep.errors[0, 0], first.errors[0, 0])  # pairs share random numbers


def test_a_study_of_an_earlier_version_opens_and_grows(tmp_path):
    now, folder = rollouts(tmp_path, 1, width=4), tmp_path / "rollouts"
    finished, position = (folder / f"trial-{name}" for name in ("000", "001.step-000000003"))
    flops = Checkpoint(finished).record
    shutil.rmtree(finished)
    packed = np.packbits(now.errors[0], axis=1)  # what was kept of a rollout, and on the way
    checkpoint.write(finished, {"result": {"errors": packed}}, flops)
    checkpoint.write(position, {"result": {"errors": packed[:3]}}, flops)
    grown = rollouts(tmp_path, 2, width=4)
    assert np.array_equal(grown.errors[0], now.errors[0])
    assert np.array_equal(grown.errors[1, :3], now.errors[0, :3])
    # which classes were predicted is not known there, and nothing is made up
    assert np.isnan(grown.plurality_risks[0][-1]) and np.isfinite(now.plurality_risks).all()
    table = page.correlate_early_statistic(grown)
    assert table.set_index(["vote", "early"]).loc[("plurality", "z_4"), "n"] == 0
    assert "z_4" in page.write(tmp_path / "out", [grown]).read_text()


@pytest.mark.slow
def test_killed_anywhere_the_rollouts_are_the_same(tmp_path):
    folder = tmp_path / "rollouts"
    whole, chance, kills = rollouts(folder / "whole"), random.Random(0), 0
    while True:
        fatal = chance.randint(20, 60)
        done = forked.run("tests.experiments.rollouts.rollouts_target", folder / "killed", fatal)
        if done.returncode == 0:
            break
        assert done.returncode == KILLED, done.stderr
        kills += 1
    assert 3 <= kills < 30
    again = rollouts(folder / "killed")
    assert np.array_equal(again.errors, whole.errors) and again.flops == whole.flops
    assert np.array_equal(again.base.right, whole.base.right)


def test_designs_are_compared_in_pairs_and_a_page_is_written(tmp_path):
    path, deep = rollouts(tmp_path / "a", 3, width=4), rollouts(tmp_path / "b", 3, depth=2, width=2)
    table = page.compare(path, deep).set_index("at")
    final = [
        compute_curve(each.errors[i], each.settings.design).risks[-1]
        for each in (deep, path)
        for i in range(3)
    ]
    expected = np.mean(final[:3]) - np.mean(final[3:])
    assert table.loc["equal rounds", "difference"] == pytest.approx(expected)
    labels = [
        compute_curve(each.errors[i], each.settings.design).labels[-1]
        for each in (deep, path)
        for i in range(3)
    ]
    assert table.loc["equal labels", "labels"] == np.mean(np.minimum(labels[:3], labels[3:]))
    html = page.write(tmp_path / "out", [path, deep]).read_text()
    assert "change over the last 2 votes" in html and "z_4" in html
    rounds = pd.read_csv(tmp_path / "out" / "risk-by-round.csv")
    assert rounds["n"].tolist() == [3] * 6 and (rounds["low"] <= rounds["mean_risk"]).all()
    early = page.correlate_early_statistic(path)
    assert early["early"].tolist() == ["z_4", "risk after 4 rounds"] * 2
    assert early["vote"].tolist() == ["errors"] * 2 + ["plurality"] * 2
    assert early["round"].tolist() == [4] * 4 and (early["n"] <= 3).all()
    assert np.array_equal(rounds["plurality_risk"][:4], path.plurality_risks.mean(axis=0))


def test_a_page_of_few_rounds_has_no_early_statistic(tmp_path):
    short = rollouts(tmp_path / "a", 2, width=3)
    assert "z_4" not in page.write(tmp_path / "out", [short]).read_text()
    assert "even number of members" not in page.state_stall(short)
    assert "even number of members" in page.state_stall(rollouts(tmp_path / "b", 1, width=2))


def test_a_base_classifier_that_cannot_be_so_accurate(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "MOST_EPOCHS", 1)
    made = made_pool()
    noise = ImagePool(made.images, np.random.default_rng(1).permutation(made.labels), 2)
    with pytest.raises(BadInput, match="less than --base_accuracy=0.99"):
        run_rollouts(dataclasses.replace(settings(), base_accuracy=0.99), noise, tmp_path, 1)


def test_data_come_from_the_package_where_nothing_is_shared(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_SHARED", str(tmp_path / "nowhere"))
    assert choose_default_data() == "pico_digits"
    pool, fingerprint = load_pool("pico_digits", 64)
    assert pool.images.shape == (64, 32, 32, 3) and len(fingerprint) == 16
    with pytest.raises(BadInput, match="'pico_digit'.*'pico_digits'"):
        load_pool("pico_digit", 64)
    with pytest.raises(BadInput, match="is multi-label"):
        load_pool("pico_mosaic", 64)
    with pytest.raises(BadInput, match="at least 16 are needed"):
        load_pool("pico_digits", 3)


@pytest.mark.slow  # tests/test_documented_commands.py runs it too
def test_the_command(tmp_path):
    words = ["--data=pico_digits", "--images=48", "--rounds=4", "--width=2", "--rollouts=1"]
    words += ["--base_accuracy=0.2", f"--out={tmp_path / 'out'}"]
    done = forked.run("launch.dynamic_benchmark", "rollouts", *words)
    assert done.returncode == 0, done.stderr
    assert "final risk" in done.stdout and (tmp_path / "out" / "report.html").is_file()
    other = forked.run("launch.dynamic_benchmark", "rollouts", *words, "--seed=1")
    assert other.returncode == 2 and "contains another study" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--base_accuracy=nan"], "--base_accuracy=nan: a number is expected"),
        (["--design=path", "--width=3"], "--width needs --design=hierarchical"),
        (["--design=hierarchical", "--rounds=7"], "--rounds needs --design=path"),
        (["--design=hierarchical", "--depth=30000"], "has more than 10,000 classifiers"),
        (["--design=path", "--rounds=10001"], "depth 1 and width 10001 has more than 10,000"),
        (["--images=16", "--base_accuracy=0.2"], "a population needs at least 16"),
    ],
)
def test_what_cannot_be_simulated_is_refused(tmp_path, words, message):
    words = ["--data=pico_digits", "--images=48", "--rollouts=1", f"--out={tmp_path}", *words]
    done = forked.run("launch.dynamic_benchmark", "rollouts", *words)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_the_theory_needs_a_directory_before_it_begins(tmp_path):
    (tmp_path / "file").touch()
    done = forked.run("launch.dynamic_benchmark", "theory", f"--out={tmp_path / 'file'}")
    assert done.returncode == 2 and "file" in done.stderr and "Traceback" not in done.stderr
