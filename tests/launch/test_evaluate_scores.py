"""Real-valued scores from files to a report, without a line of code: a leaderboard with holes, and
a csv of three metrics over three data sets.
"""

import copy
import csv
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.commands import study
from nevis_stream.experiments.evaluation_studies.method_study import StudiedMatrix
from tests import forked

SHARED = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared")) / "matrices"
MODELS, SAMPLES = 20, 60  # samples of each data set
TRIED = ["--budgets=8,32", "--seeds=2", "--methods=random_mean,copy_nearest"]
RANDOM = ["--budgets=16,64", "--seeds=1", "--methods=random_mean"]


def command(*words):
    done = forked.run("launch.evaluate", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words):
    done = forked.run("launch.evaluate", *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory):
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
    path = tmp_path_factory.mktemp("leaderboard") / "leaderboard.csv"
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "dataset", "sample", "metric", "low", "high", "score"])
        for i, k in np.ndindex(noisy.shape):
            if random.random() < 0.9:
                dataset, metric, low, high, rescale = kinds[k // SAMPLES]
                score = rescale(float(noisy[i, k]))
                rows.writerow([f"m{i}", dataset, k % SAMPLES, metric, low, high, score])
    return path


@pytest.fixture(scope="module")
def board(leaderboard, tmp_path_factory):
    """The leaderboard as a cache, and what the import said."""
    cache = tmp_path_factory.mktemp("caches") / "board"
    return SimpleNamespace(cache=cache, said=command("import", leaderboard, f"--cache={cache}"))


@pytest.fixture(scope="module")
def new_model(board, tmp_path_factory):
    """A copy of model m3, in a csv."""
    whole = EvaluationCache(board.cache)
    facts, row = whole.facts(), np.nan_to_num(whole.matrix(["m3"])[0], nan=0.5)
    low, high = facts.low.astype(float), facts.high.astype(float)
    path = tmp_path_factory.mktemp("new") / "new.csv"
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
    squad = 100 * row[facts.dataset == "squad"].mean()  # in the range 0 to 100
    return SimpleNamespace(path=path, squad=squad)


@pytest.fixture(scope="module")
def grown(board, new_model, tmp_path_factory):
    """The board with the new model, asked on 40 samples and then on all, and what was said."""
    cache = shutil.copytree(board.cache, tmp_path_factory.mktemp("grown") / "board")
    words = [f"--model={new_model.path}", f"--cache={cache}", "--method=random_mean"]
    few, complete = (command("add-model", *words, f"--budget={each}") for each in ("40", "100%"))
    return SimpleNamespace(cache=cache, few=few, complete=complete)


@pytest.fixture(scope="module")
def mended(grown, tmp_path_factory):
    """The grown board, damaged and repaired, and what the repair said."""
    folder = tmp_path_factory.mktemp("mended")
    damaged = EvaluationCache(shutil.copytree(grown.cache, folder / "damaged"))
    data = bytearray(damaged.cells.path.read_bytes())
    data[200] ^= 8
    damaged.cells.path.write_bytes(data)
    said = command("repair", f"--cache={folder / 'damaged'}", f"--out={folder / 'mended'}")
    return SimpleNamespace(cache=folder / "mended", said=said)


def test_three_metrics_of_three_data_sets_are_imported_with_holes(board):
    assert "20 models × 180 samples, " in board.said and "cells unknown" in board.said
    assert "squad F1: 60 samples, scores from 0 to 100" in board.said
    assert "math exact match: 60 samples, outcomes" in board.said


def test_stats_tell_the_range_of_each_data_set(board):
    output = command("stats", f"--cache={board.cache}")
    assert "squad" in output and "0 to 100" in output


def test_a_model_without_a_failure_is_not_added_for_its_failures(board, new_model, tmp_path):
    cache = shutil.copytree(board.cache, tmp_path / "cache")
    words = [f"--model={new_model.path}", "--budget=40", f"--cache={cache}"]
    early = refused("add-model", *words, f"--failures={tmp_path / 'failures.csv'}")
    assert "of which none is a failure" in early
    assert "new" not in EvaluationCache(cache).models()


def test_a_model_asked_on_few_samples_has_a_mean_of_each_data_set(grown, new_model):
    """Data sets of other ranges have no common mean."""
    output = grown.few
    assert "  mean score 0." in output and "accuracy" not in output
    assert "its 3 data sets differ in direction or range" in output and "0 to 100" in output
    for name, asked in (("squad", 14), ("chat", 13), ("math", 13)):
        assert f"model new on {name}: {asked} of 60 cells observed" in output
    found = re.search(r"on squad: .*\n  mean score (\S+) \(95%: (\S+) to ([\d.]+)", output)
    value, least, most = map(float, found.groups())
    assert least <= value <= most and least <= new_model.squad <= most


def test_a_model_asked_on_all_samples_has_its_mean_itself(grown, new_model):
    assert f"  mean score {new_model.squad:.4f}" in grown.complete


def test_a_model_whose_scores_have_another_range_is_refused(grown, new_model, tmp_path):
    cache, path = shutil.copytree(grown.cache, tmp_path / "cache"), tmp_path / "new.csv"
    path.write_text(new_model.path.read_text().replace(",0.0,100.0,", ",0.0,200.0,"))
    words = [f"--model={path}", "--budget=40", f"--cache={cache}", "--method=random_mean"]
    assert "has the range 0 to 100 in this cache" in refused("add-model", *words)


def test_a_study_of_a_leaderboard_tries_methods_on_each_data_set(leaderboard, tmp_path):
    folder = tmp_path / "study"
    assert "error of the mean" in command("study", leaderboard, f"--out={folder}", *TRIED)
    rows = pd.read_csv(folder / "study.csv")
    assert set(rows["method"]) >= {"random_mean"} and rows["mae"].between(0, 0.5).all()
    assert set(rows["matrix"]) == {f"leaderboard-{name}" for name in ("squad", "chat", "math")}


def test_the_report_has_the_means_of_data_sets_in_their_own_ranges(grown, tmp_path):
    cache = shutil.copytree(grown.cache, tmp_path / "cache")
    command("metrics", f"--cache={cache}", *TRIED)
    report = forked.run("launch.report", cache, f"--out={tmp_path / 'out'}")
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Means by data set" in page and "no mean of all samples, since data sets differ" in page
    assert "What was imported, and what was left out" in page
    groups = pd.read_csv(tmp_path / "out" / "evaluation_sample_groups.csv")
    assert groups["dataset"].tolist() == ["squad", "chat", "math"]
    assert groups["high"].tolist() == [100, 1, 1] and groups["mean"][0] > 1


def test_an_exported_cache_is_imported_as_it_was(grown, tmp_path):
    command("export", tmp_path / "all.npz", f"--cache={grown.cache}")
    command("import", tmp_path / "all.npz", f"--cache={tmp_path / 'again'}")
    again, whole = EvaluationCache(tmp_path / "again"), EvaluationCache(grown.cache)
    np.testing.assert_equal(again.matrix(), whole.matrix())


def test_a_cache_merged_into_a_new_one_is_the_same_and_intact(grown, tmp_path):
    command("merge", grown.cache, f"--cache={tmp_path / 'merged'}")
    merged, whole = EvaluationCache(tmp_path / "merged"), EvaluationCache(grown.cache)
    np.testing.assert_equal(merged.matrix(), whole.matrix())
    assert command("verify", f"--cache={tmp_path / 'merged'}").strip().endswith("intact")


def test_a_repaired_cache_keeps_its_data_sets(grown, mended):
    assert "1 damaged part" in mended.said
    lost, whole = EvaluationCache(mended.cache), EvaluationCache(grown.cache)
    assert lost.scores and lost.facts().dataset.tolist() == whole.facts().dataset.tolist()


def test_what_a_repair_lost_is_imported_again(leaderboard, grown, mended, tmp_path):
    cache = shutil.copytree(mended.cache, tmp_path / "cache")
    command("import", leaderboard, f"--cache={cache}")
    np.testing.assert_equal(EvaluationCache(cache).matrix(), EvaluationCache(grown.cache).matrix())


def test_weights_that_do_not_fit_are_refused_before_a_cache_is_written(leaderboard, tmp_path):
    cache = tmp_path / "cache"
    for weights in ("squad=1,chat=1,maths=2", "squad=1", "squad=-1,chat=1,math=1"):
        said = refused("import", leaderboard, f"--dataset_weights={weights}", f"--cache={cache}")
        assert "dataset_weights: " in said and not cache.exists()


def test_data_sets_without_a_common_mean_take_no_weights(leaderboard, tmp_path):
    cache, out = tmp_path / "cache", tmp_path / "study"
    for words in (("import", f"--cache={cache}"), ("study", f"--out={out}", "--budgets=8")):
        said = refused(*words, leaderboard, "--dataset_weights=squad=1,chat=1,math=2")
        assert "differ in direction or range, so they have no common mean" in said
    assert not out.exists()


def test_a_method_of_outcomes_is_refused_for_scores_before_a_study_is_written(
    leaderboard, tmp_path
):
    out, pairs = tmp_path / "study", "--methods=random+mean,random+sort_and_search"
    said = refused("study", leaderboard, pairs, f"--out={out}", "--budgets=8", "--seeds=1")
    assert "random+sort_and_search takes outcomes" in said and "random+mean" in said
    assert not out.exists()


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """A cache of the data sets a and b, of equal weights, and a csv of c and d."""
    folder, columns = tmp_path_factory.mktemp("weighted"), "model,sample,outcome,dataset"
    for datasets in ("ab", "cd"):
        lines = (f"m{m},{d}{i},{(m + i) % 2},{d}" for m in (0, 1) for d in datasets for i in (0, 1))
        (folder / f"{datasets}.csv").write_text("\n".join([columns, *lines]))
    cache = folder / "cache"
    command("import", folder / "ab.csv", "--dataset_weights=equal", f"--cache={cache}")
    return SimpleNamespace(cache=cache, more=folder / "cd.csv")


@pytest.fixture(scope="module")
def joined(weighted, tmp_path_factory):
    """The cache of all four, with weights."""
    cache = shutil.copytree(weighted.cache, tmp_path_factory.mktemp("joined") / "cache")
    command("import", weighted.more, f"--cache={cache}", "--dataset_weights=a=1,b=2,c=1,d=4")
    return cache


def test_data_sets_without_a_weight_do_not_join_those_that_have_one(weighted, tmp_path):
    cache = shutil.copytree(weighted.cache, tmp_path / "cache")
    words = "import", weighted.more, f"--cache={cache}"
    assert "the data sets a, b have weights in the mean, but not 'c', 'd': give" in refused(*words)
    assert "no weight for d" in refused(*words, "--dataset_weights=a=1,b=2,c=1")
    assert "'a' has two weights" in refused(*words, "--dataset_weights=a=1,a=2,b=1")
    assert EvaluationCache(cache).shape == (2, 4)


def test_samples_of_no_data_set_do_not_join_data_sets_with_weights(weighted, tmp_path):
    cache = shutil.copytree(weighted.cache, tmp_path / "cache")
    (tmp_path / "none.csv").write_text("model,sample,outcome\nm0,z,1\nm1,z,0\n")
    plain = refused("import", tmp_path / "none.csv", f"--cache={cache}")
    assert "some samples have no data set: give a column `dataset`" in plain
    assert EvaluationCache(cache).shape == (2, 4)


def test_data_sets_join_with_weights_for_all(joined):
    assert EvaluationCache(joined).facts().weights.sum() == 1


def test_samples_that_are_complete_are_asked_of_no_model(weighted, joined, tmp_path):
    cache = shutil.copytree(joined, tmp_path / "cache")
    add = "add-samples", f"--samples={weighted.more}", "--budget=1", f"--cache={cache}"
    assert "4 samples: already complete: nothing to ask" in command(*add)


def test_weights_of_data_sets_can_be_taken_away(joined, tmp_path):
    cache = shutil.copytree(joined, tmp_path / "cache")
    EvaluationCache(cache).set_dataset_weights(None)
    assert EvaluationCache(cache).facts().dataset_weights is None


def test_a_data_set_of_another_range_ends_the_use_of_weights(joined, tmp_path):
    cache = shutil.copytree(joined, tmp_path / "cache")
    EvaluationCache(cache).set_dataset_weights("equal")
    columns, lines = "model,sample,score,dataset,low,high", ["m0,e0,5,e,0,9", "m1,e0,7,e,0,9"]
    (tmp_path / "e.csv").write_text("\n".join([columns, *lines]))
    more = command("import", tmp_path / "e.csv", f"--cache={cache}")
    assert "its dataset_weights are no longer used" in more
    assert EvaluationCache(cache).facts().dataset_weights is None


def test_the_main_methods_are_those_that_take_the_values():
    values = SimpleNamespace(
        methods=[], policies=[], predictors=[], budgets=[8], known=0.6, seeds=1
    )
    outcomes = StudiedMatrix("outcomes", np.zeros((2, 3), np.uint8))
    assert study._design(values, [outcomes]).methods == study.MAIN
    scores = StudiedMatrix("scores", np.zeros((2, 3), np.float32))
    assert study._design(values, [scores]).methods == (
        "random_mean",
        "adaptive_testing",
        "quadrature",
        "recommended",
    )


@pytest.fixture(scope="module")
def alpaca(tmp_path_factory):
    """A leaderboard of real scores: its file, its cache, and what the import said."""
    file = SHARED / "alpaca_eval2.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    cache = tmp_path_factory.mktemp("alpaca") / "alpaca"
    said = command("import", file, f"--cache={cache}")
    return SimpleNamespace(file=file, cache=cache, said=said)


def test_a_leaderboard_of_real_scores_is_imported_with_its_unknown_cells(alpaca):
    assert "58 models × 805 samples, 10 cells unknown" in alpaca.said


def test_more_samples_of_real_scores_leave_a_smaller_error(alpaca, tmp_path):
    command("study", alpaca.file, f"--out={tmp_path / 'study'}", *RANDOM)
    rows = pd.read_csv(tmp_path / "study" / "study.csv").set_index("budget")
    assert rows["accuracy_error"][64] < rows["accuracy_error"][16] < 0.15


def test_the_report_of_real_scores_has_their_mean_and_their_unknown_cells(alpaca, tmp_path):
    cache = shutil.copytree(alpaca.cache, tmp_path / "alpaca")
    command("metrics", f"--cache={cache}", *RANDOM)
    report = forked.run("launch.report", cache, f"--out={tmp_path / 'out'}")
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "mean score 0.128" in page and "10 cells unknown" in page


def test_new_samples_of_real_scores_are_asked_of_few_models(alpaca, tmp_path):
    old, new = np.split(np.arange(805), [700])
    truth = np.load(alpaca.file)
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


def test_the_published_methods_are_refused_for_real_scores(alpaca, tmp_path):
    words = ["--methods=published", "--seeds=1", f"--out={tmp_path / 'study'}"]
    assert "published takes outcomes" in refused("study", alpaca.file, *words)


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """A study of policies crossed with predictors: its command, its folder, and what it said."""
    place = tmp_path_factory.mktemp("crossed")
    random = np.random.default_rng(0)
    ability, ease = random.normal(size=(24, 1)), random.normal(size=60)
    values = (ability + ease + 0.5 * random.normal(size=(24, 60)) > 0).astype(np.uint8)
    names = [f"m{i}" for i in range(24)]
    np.savez(
        place / "board.npz",
        models=names,
        samples=[f"s{k}" for k in range(60)],
        correct=values,
        dataset=np.repeat(["a", "b", "c"], 20),
    )
    years = "".join(f"{name},{2000 + i}\n" for i, name in enumerate(names))
    (place / "models.csv").write_text(f"model,year\n{years}")
    (place / "study.toml").write_text('budgets = [4, 8]\nseeds = 9\nhide = "1"\n')
    words = [
        "study",
        place / "board.npz",
        f"--config={place / 'study.toml'}",
        "--policies=strata,mean_variance,clusters_features",
        "--predictors=mean,linear_gaussian",
        f"--model_facts={place / 'models.csv'}",
        "--seeds=2",
    ]
    said = command(*words, f"--out={place / 'study'}", "--model_split=by:year")
    return SimpleNamespace(words=words, folder=place / "study", said=said)


def test_policies_are_crossed_with_predictors(crossed):
    said = crossed.said
    assert "means over 2 repetitions on one split of 1 matrix" in said
    assert "left out: clusters_features: not every sample has features" in said
    assert "left out: mean_variance+mean: policy 'mean_variance' needs" in said
    assert "the first 60% of the models by year known; hidden data sets: 1" in said
    assert "Use " in said
    rows = pd.read_csv(crossed.folder / "study.csv")
    pairs = {"strata+mean", "strata+linear_gaussian", "mean_variance+linear_gaussian"}
    assert set(rows["method"]) == pairs and len(rows) == 3 * 2 * 2 and (rows["flops"] > 0).all()
    assert (crossed.folder / "board.pdf").is_file()


def test_a_study_does_not_go_on_with_another_split_of_the_models(crossed, tmp_path):
    folder = shutil.copytree(crossed.folder, tmp_path / "study")
    said = refused(*crossed.words, f"--out={folder}")
    assert 'model_split: there "by:year", now ""' in said


def test_the_report_shows_policies_crossed_with_predictors(crossed, tmp_path):
    done = forked.run("launch.report", crossed.folder, f"--out={tmp_path / 'out'}")
    assert done.returncode == 0
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


@pytest.fixture(scope="module")
def fitted(leaderboard, tmp_path_factory):
    """The leaderboard in one range as a cache with a chosen method that is fitted, the command, and
    what it said.
    """
    place = tmp_path_factory.mktemp("fitted")
    table = pd.read_csv(leaderboard)
    table["score"] /= table["high"]
    table.assign(high=1, metric="score").to_csv(place / "leaderboard.csv", index=False)
    cache = place / "cache"
    command("import", place / "leaderboard.csv", f"--cache={cache}")
    words = ["fit", "--budget=12"]
    return SimpleNamespace(cache=cache, words=words, said=command(*words, f"--cache={cache}"))


@pytest.mark.slow
def test_no_method_is_fitted_where_data_sets_have_no_common_mean(board):
    told = refused("fit", "--budget=12", f"--cache={board.cache}")
    assert "its 3 data sets differ in direction or range" in told


@pytest.mark.slow
def test_the_default_is_fitted_beforehand(fitted):
    assert "informed_mean is fitted for a budget of 12" in fitted.said


@pytest.mark.slow
def test_a_method_that_is_chosen_again_is_told_in_the_same_words(fitted, tmp_path):
    cache = shutil.copytree(fitted.cache, tmp_path / "cache")
    assert fitted.said == command(*fitted.words, f"--cache={cache}")


@pytest.mark.slow
def test_a_method_that_is_named_is_fitted(fitted, tmp_path):
    cache = shutil.copytree(fitted.cache, tmp_path / "cache")
    what = ["fit", "--budget=12", f"--cache={cache}"]
    assert "linear_gaussian is fitted" in command(*what, "--method=linear_gaussian")


@pytest.mark.slow
def test_a_method_that_is_not_known_is_not_fitted(fitted):
    what = ["fit", "--budget=12", f"--cache={fitted.cache}"]
    assert "'guess'" in refused(*what, "--method=guess")
