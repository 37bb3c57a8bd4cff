"""Real-valued scores from files to a report, without a line of code: a leaderboard with holes, and
a csv of three metrics over three data sets.
"""

import copy
import csv
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method_study import Matrix
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.launch.evaluate_commands import study
from tests import forked

SHARED = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared")) / "matrices"
MODELS, SAMPLES = 20, 60  # samples of each data set


def command(*words):
    done = forked.run("launch.evaluate", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words):
    done = forked.run("launch.evaluate", *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.fixture
def leaderboard(tmp_path):
    """A csv of F1 (0 to 100), win rate (0 to 1) and outcomes, a tenth of the cells missing."""
    random = np.random.default_rng(0)
    skill, difficulty = random.normal(size=(MODELS, 1)), random.normal(size=(1, 3 * SAMPLES))
    chance = 1 / (1 + np.exp(difficulty - 2 * skill))
    noisy = np.clip(chance + random.normal(0, 0.1, chance.shape), 0, 1)
    kinds = (
        ("squad", "F1", 0, 100, lambda p: round(100 * p, 2)),
        ("chat", "win rate", 0, 1, lambda p: round(p, 4)),
        ("math", "exact match", 0, 1, lambda p: int(p > 0.5)),
    )
    path = tmp_path / "leaderboard.csv"
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "dataset", "sample", "metric", "low", "high", "score"])
        for i, k in np.ndindex(noisy.shape):
            if random.random() < 0.9:
                dataset, metric, low, high, rescale = kinds[k // SAMPLES]
                score = rescale(float(noisy[i, k]))
                rows.writerow([f"m{i}", dataset, k % SAMPLES, metric, low, high, score])
    return path


def _add_a_model(cache, tmp_path):
    """A copy of model m3 is asked on 40 samples: data sets of other ranges have no common mean."""
    whole = EvaluationCache(cache)
    facts, row = whole.facts(), np.nan_to_num(whole.matrix(["m3"])[0], nan=0.5)
    low, high = facts.low.astype(float), facts.high.astype(float)
    path = tmp_path / "new.csv"
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "dataset", "sample", "low", "high", "score"])
        for k, sample in enumerate(whole.samples()):
            value = (
                round(row[k] * (high[k] - low[k]), 4)
                if facts.dataset[k] != "math"
                else row[k] > 0.5
            )
            rows.writerow(["new", facts.dataset[k], sample, low[k], high[k], float(value)])
    add = ["add-model", f"--model={path}", "--budget=40", f"--cache={cache}"]
    early = forked.run("launch.evaluate", *add, f"--failures={tmp_path / 'failures.csv'}")
    assert early.returncode == 2 and "of which none is a failure" in early.stderr
    assert "new" not in whole.models()
    output = command(*add, "--method=random_mean")
    assert "  mean score 0." in output and "accuracy" not in output
    assert "its 3 data sets differ in direction or range" in output and "0 to 100" in output
    for name, asked in (("squad", 14), ("chat", 13), ("math", 13)):
        assert f"model new on {name}: {asked} of 60 cells observed" in output
    found = re.search(r"on squad: .*\n  mean score (\S+) \(95%: (\S+) to ([\d.]+)", output)
    value, least, most = map(float, found.groups())  # in the range 0 to 100
    assert least <= value <= most and least <= 100 * row[facts.dataset == "squad"].mean() <= most
    complete = command(*add[:2], "--budget=100%", add[-1], "--method=random_mean")
    squad = 100 * row[facts.dataset == "squad"].mean()
    assert f"  mean score {squad:.4f}" in complete
    path.write_text(path.read_text().replace(",0.0,100.0,", ",0.0,200.0,"))
    refused = forked.run("launch.evaluate", *add, "--method=random_mean")
    assert refused.returncode == 2 and "has the range 0 to 100 in this cache" in refused.stderr


def test_three_metrics_of_three_data_sets_with_holes(leaderboard, tmp_path):
    cache = tmp_path / "caches" / "board"
    output = command("import", leaderboard, f"--cache={cache}")
    assert "20 models × 180 samples, " in output and "cells unknown" in output
    assert "squad F1: 60 samples, scores from 0 to 100" in output
    assert "math exact match: 60 samples, outcomes" in output
    output = command("stats", f"--cache={cache}")
    assert "squad" in output and "0 to 100" in output
    _add_a_model(cache, tmp_path)
    options = ["--budgets=8,32", "--seeds=2", "--methods=random_mean,copy_nearest"]
    folder = tmp_path / "study"
    assert "error of the mean" in command("study", leaderboard, f"--out={folder}", *options)
    rows = pd.read_csv(folder / "study.csv")
    assert set(rows["method"]) >= {"random_mean"} and rows["mae"].between(0, 0.5).all()
    assert set(rows["matrix"]) == {f"leaderboard-{name}" for name in ("squad", "chat", "math")}
    command("metrics", f"--cache={cache}", *options)
    report = forked.run("launch.report", cache, f"--out={tmp_path / 'out'}")
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Means by data set" in page and "no mean of all samples, since data sets differ" in page
    assert "What was imported, and what was left out" in page
    groups = pd.read_csv(tmp_path / "out" / "evaluation_sample_groups.csv")
    assert groups["dataset"].tolist() == ["squad", "chat", "math"]
    assert groups["high"].tolist() == [100, 1, 1] and groups["mean"][0] > 1
    command("export", tmp_path / "all.npz", f"--cache={cache}")
    command("import", tmp_path / "all.npz", f"--cache={tmp_path / 'again'}")
    command("merge", cache, f"--cache={tmp_path / 'merged'}")
    whole = EvaluationCache(cache)
    for name in ("again", "merged"):
        np.testing.assert_equal(EvaluationCache(tmp_path / name).matrix(), whole.matrix())
    assert command("verify", f"--cache={tmp_path / 'merged'}").strip().endswith("intact")
    data = bytearray(whole.cells.path.read_bytes())
    data[200] ^= 8
    whole.cells.path.write_bytes(data)
    output = command("repair", f"--cache={cache}", f"--out={tmp_path / 'mended'}")
    assert "1 damaged part" in output
    lost = EvaluationCache(tmp_path / "mended")
    assert lost.scores and lost.facts().dataset.tolist() == whole.facts().dataset.tolist()
    command("import", leaderboard, f"--cache={tmp_path / 'mended'}")
    np.testing.assert_equal(lost.matrix(), EvaluationCache(tmp_path / "merged").matrix())


def test_weights_and_methods_that_do_not_fit_are_refused_before_anything_is_written(
    leaderboard, tmp_path
):
    cache, out = tmp_path / "cache", tmp_path / "study"
    for weights in ("squad=1,chat=1,maths=2", "squad=1", "squad=-1,chat=1,math=1"):
        said = refused("import", leaderboard, f"--dataset_weights={weights}", f"--cache={cache}")
        assert "dataset_weights: " in said and not cache.exists()
    for words in (("import", f"--cache={cache}"), ("study", f"--out={out}", "--budgets=8")):
        said = refused(*words, leaderboard, "--dataset_weights=squad=1,chat=1,math=2")
        assert "differ in direction or range, so they have no common mean" in said
    pairs = "--methods=random+mean,random+sort_and_search"
    said = refused("study", leaderboard, pairs, f"--out={out}", "--budgets=8", "--seeds=1")
    assert "random+sort_and_search takes outcomes" in said and "random+mean" in said
    assert not out.exists()


def test_data_sets_without_a_weight_do_not_join_those_that_have_one(tmp_path):
    cache, columns = tmp_path / "cache", "model,sample,outcome,dataset"
    for datasets in ("ab", "cd"):
        lines = (f"m{m},{d}{i},{(m + i) % 2},{d}" for m in (0, 1) for d in datasets for i in (0, 1))
        (tmp_path / f"{datasets}.csv").write_text("\n".join([columns, *lines]))
    command("import", tmp_path / "ab.csv", "--dataset_weights=equal", f"--cache={cache}")
    words = "import", tmp_path / "cd.csv", f"--cache={cache}"
    assert "the data sets a, b have weights in the mean, but not 'c', 'd': give" in refused(*words)
    assert "no weight for d" in refused(*words, "--dataset_weights=a=1,b=2,c=1")
    assert "'a' has two weights" in refused(*words, "--dataset_weights=a=1,a=2,b=1")
    (tmp_path / "none.csv").write_text("model,sample,outcome\nm0,z,1\nm1,z,0\n")
    plain = refused("import", tmp_path / "none.csv", f"--cache={cache}")
    assert "some samples have no data set: give a column `dataset`" in plain
    assert EvaluationCache(cache).shape == (2, 4)
    command(*words, "--dataset_weights=a=1,b=2,c=1,d=4")
    assert EvaluationCache(cache).facts().weights.sum() == 1
    add = "add-samples", f"--samples={tmp_path / 'cd.csv'}", "--budget=1", f"--cache={cache}"
    assert "4 samples: already complete: nothing to ask" in command(*add)
    EvaluationCache(cache).set_dataset_weights(None)
    assert EvaluationCache(cache).facts().dataset_weights is None
    columns, lines = "model,sample,score,dataset,low,high", ["m0,e0,5,e,0,9", "m1,e0,7,e,0,9"]
    (tmp_path / "e.csv").write_text("\n".join([columns, *lines]))
    EvaluationCache(cache).set_dataset_weights("equal")
    more = command("import", tmp_path / "e.csv", f"--cache={cache}")
    assert "its dataset_weights are no longer used" in more
    assert EvaluationCache(cache).facts().dataset_weights is None


def test_the_main_methods_are_those_that_take_the_values():
    values = SimpleNamespace(
        methods=[], policies=[], predictors=[], budgets=[8], known=0.6, seeds=1
    )
    outcomes = Matrix("outcomes", np.zeros((2, 3), np.uint8))
    assert study._design(values, [outcomes]).methods == study.MAIN
    scores = Matrix("scores", np.zeros((2, 3), np.float32))
    assert study._design(values, [scores]).methods == (
        "random_mean",
        "adaptive_testing",
        "quadrature",
        "recommended",
    )


def test_a_leaderboard_of_real_scores_is_studied_and_reported(tmp_path):
    file = SHARED / "alpaca_eval2.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    cache, options = tmp_path / "alpaca", ["--budgets=16,64", "--seeds=1", "--methods=random_mean"]
    assert "58 models × 805 samples, 10 cells unknown" in command(
        "import", file, f"--cache={cache}"
    )
    command("study", file, f"--out={tmp_path / 'study'}", *options)
    rows = pd.read_csv(tmp_path / "study" / "study.csv").set_index("budget")
    assert rows["accuracy_error"][64] < rows["accuracy_error"][16] < 0.15
    command("metrics", f"--cache={cache}", *options)
    report = forked.run("launch.report", cache, f"--out={tmp_path / 'out'}")
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "mean score 0.128" in page and "10 cells unknown" in page
    old, new = np.split(np.arange(805), [700])
    truth = np.load(file)
    for name, columns in (("old", old), ("new", new)):
        arrays = {each: truth[each][:, columns] for each in ("score", "imputed")}
        models, samples = truth["models"], truth["samples"][columns]
        np.savez(tmp_path / name, models=models, samples=samples, **arrays)
    parts = f"--cache={tmp_path / 'parts'}"
    command("import", tmp_path / "old.npz", parts)
    add = ["add-samples", f"--samples={tmp_path / 'new.npz'}", "--budget=5", "--method=random_mean"]
    assert "105 samples: 525 of 6,090 cells observed" in command(*add, parts)
    states = EvaluationCache(tmp_path / "parts").states()
    assert (states[:, 700:] == 2).sum() == 6090 - 525
    refused = forked.run(
        "launch.evaluate",
        "study",
        file,
        "--methods=published",
        "--seeds=1",
        f"--out={tmp_path / 'refused'}",
    )
    assert refused.returncode == 2 and "published takes outcomes" in refused.stderr


def test_policies_are_crossed_with_predictors_and_the_report_shows_it(tmp_path):
    random = np.random.default_rng(0)
    ability, ease = random.normal(size=(24, 1)), random.normal(size=60)
    values = (ability + ease + 0.5 * random.normal(size=(24, 60)) > 0).astype(np.uint8)
    names = [f"m{i}" for i in range(24)]
    np.savez(
        tmp_path / "board.npz",
        models=names,
        samples=[f"s{k}" for k in range(60)],
        correct=values,
        dataset=np.repeat(["a", "b", "c"], 20),
    )
    years = "".join(f"{name},{2000 + i}\n" for i, name in enumerate(names))
    (tmp_path / "models.csv").write_text(f"model,year\n{years}")
    (tmp_path / "study.toml").write_text('budgets = [4, 8]\nseeds = 9\nhide = "1"\n')
    folder = tmp_path / "study"
    words = [
        "study",
        tmp_path / "board.npz",
        f"--config={tmp_path / 'study.toml'}",
        "--policies=strata,mean_variance,clusters_features",
        "--predictors=mean,linear_gaussian",
        f"--model_facts={tmp_path / 'models.csv'}",
        f"--out={folder}",
        "--seeds=2",
    ]
    said = command(*words, "--model_split=by:year")
    assert "means over 2 repetitions on one split of 1 matrix" in said
    assert "left out: clusters_features: not every sample has features" in said
    assert "left out: mean_variance+mean: policy 'mean_variance' needs" in said
    assert "the first 60% of the models by year known; hidden data sets: 1" in said
    assert "Use " in said
    rows = pd.read_csv(folder / "study.csv")
    pairs = {"strata+mean", "strata+linear_gaussian", "mean_variance+linear_gaussian"}
    assert set(rows["method"]) == pairs and len(rows) == 3 * 2 * 2 and (rows["flops"] > 0).all()
    assert (folder / "board.pdf").is_file()
    assert 'model_split: there "by:year", now ""' in refused(*words)
    assert forked.run("launch.report", folder, f"--out={tmp_path / 'out'}").returncode == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Methods of evaluation" in page and "study_crossing_1_1" in page
    assert len(pd.read_csv(tmp_path / "out" / "study_cells.csv")) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policies=strata"], "--policies needs --predictors too"),
        (["--policies=guess", "--predictors=mean"], "'guess'"),
        (["--policies=fisher", "--predictors=mean"], "no pair of these can be tried"),
        (["--model_split=by:size"], "there are no facts about models"),
        (["--hide=2"], "the samples belong to no data sets"),
        (["--config=none.toml"], "--config=none.toml: "),
        (["--known=nan"], "--known=nan: "),
        (["--model_split=group"], "there are no groups of models"),
    ],
)
def test_studies_that_cannot_be(tmp_path, words, said):
    (tmp_path / "board.csv").write_text("model,a,b\nx,1,0\ny,0,1\nz,1,1\n")
    what = ["--budgets=1", "--seeds=1", f"--out={tmp_path / 'study'}"]
    assert said in refused("study", tmp_path / "board.csv", *what, *words)


def test_a_study_into_a_file_or_a_damaged_folder_is_refused(tmp_path):
    board = tmp_path / "board.csv"
    board.write_text("model,a,b\nx,1,0\ny,0,1\nz,1,1\n")
    words = ["study", board, "--budgets=1", "--seeds=1", "--methods=random_mean"]
    assert "is a file; a folder is expected" in refused(*words, f"--out={board}")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text("{")
    assert "study.json: " in refused(*words, f"--out={tmp_path / 'study'}")


@pytest.mark.parametrize("name", ["cold_start", "model_bias"])
def test_the_projects_own_studies_are_of_known_flags_and_methods(name):
    from nevis_stream.launch.evaluate import SUBCOMMANDS

    (command,) = (each for each in SUBCOMMANDS if each.name == "study")
    values = copy.deepcopy(command.flags)
    path = Path(__file__).resolve().parents[2] / "experiments" / "studies" / f"{name}.toml"
    study._apply(path, values)
    assert all(methods.get(each) for each in values.methods) and values.budgets == [20, 100]
    assert f"--config=experiments/studies/{name}.toml" in path.read_text()


@pytest.mark.slow
def test_a_method_is_chosen_and_fitted_beforehand(leaderboard, tmp_path):
    cache, mixed = tmp_path / "cache", tmp_path / "mixed"
    command("import", leaderboard, f"--cache={mixed}")
    told = refused("fit", "--budget=12", f"--cache={mixed}")
    assert "its 3 data sets differ in direction or range" in told
    table = pd.read_csv(leaderboard)
    table["score"] /= table["high"]
    table.assign(high=1, metric="score").to_csv(leaderboard, index=False)
    command("import", leaderboard, f"--cache={cache}")
    what = ["--budget=12", f"--cache={cache}"]
    said = command("fit", *what, "--choice_flops=1e11")
    assert "chosen for these known models and this budget: it" in said
    assert "is fitted for a budget of 12" in said and "strata+mean 0." in said
    assert said == command("fit", *what, "--choice_flops=1e11")
    assert "linear_gaussian is fitted" in command("fit", *what, "--method=linear_gaussian")
    assert "'guess'" in refused("fit", *what, "--method=guess")
