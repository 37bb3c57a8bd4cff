"""launch.evaluate with bad input and kills: one clear line, and nothing is lost."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import read_additions
from tests import forked
from tests.dynamic_evaluation.making import one_order

MODELS, SAMPLES = [f"m{i}" for i in range(12)], [f"s{j}" for j in range(60)]
DATASET = np.repeat(["large", "small", "single"], [40, 19, 1])
VALUES = one_order(13, 60)
FEATURES = np.random.default_rng(0).normal(size=(60, 4))
HOLED = np.where(np.arange(60)[:, None] == 7, np.nan, FEATURES)


def command(*words, **options):
    return forked.run("launch.evaluate", *words, **options)


def board(folder, name="board.npz", models=MODELS, **arrays):
    values = {"correct": VALUES[: len(models)], "dataset": DATASET} | arrays
    np.savez(folder / name, models=models, samples=SAMPLES, **values)
    return folder / name


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    done = command("import", board(folder), f"--cache={folder / 'cache'}")
    assert done.returncode == 0 and "single: 1 sample" in done.stdout
    board(folder, "new.npz", ["new"], correct=VALUES[12:])
    return folder


def refused(*words, **options):
    done = command(*words, **options)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def partly(value):
    features = FEATURES.copy()
    features[7, 2] = value
    return features


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"score": np.where(np.eye(12, 60) == 1, 1.7, 0.5)}, "'m0', sample 's0': 1.7 is not"),
        (
            {"score": np.where(np.repeat(np.arange(12) == 4, 60).reshape(12, 60), np.nan, 0.5)},
            "'m4' has no values",
        ),
        ({"features": FEATURES[:50]}, "`features` has shape (50, 4); [60, d] is expected"),
        ({"features": np.full((60, 4), "x")}, "`features` has type <U1"),
        ({"features": partly(np.nan)}, "features of sample 's7': not all are finite"),
        ({"features": partly(np.inf)}, "features of sample 's7': not all are finite"),
    ],
)
def test_a_bad_file_leaves_no_cache(tmp_path, arrays, message):
    file, cache = board(tmp_path, **arrays), tmp_path / "cache"
    assert f"error: {file}" in (said := refused("import", file, f"--cache={cache}"))
    assert message in said and not cache.exists()


WEIGHED = "--dataset_weights=equal"


def test_a_new_cache_gives_a_data_set_of_one_sample_no_weight(filled, tmp_path):
    said = refused("import", filled / "board.npz", WEIGHED, f"--cache={tmp_path / 'new'}")
    assert "data set 'single' has one sample" in said and not (tmp_path / "new").exists()


def test_a_cache_gives_a_data_set_of_one_sample_no_weight(filled, tmp_path):
    cache = shutil.copytree(filled / "cache", tmp_path / "cache")
    said = refused("import", filled / "board.npz", WEIGHED, f"--cache={cache}")
    assert "data set 'single' has one sample" in said
    assert EvaluationCache(cache).facts().dataset_weights is None


def test_a_study_gives_a_data_set_of_one_sample_no_weight(filled, tmp_path):
    words = [WEIGHED, f"--out={tmp_path / 'study'}", "--budgets=8"]
    said = refused("study", filled / "board.npz", *words)
    assert "data set 'single' has one sample" in said and not (tmp_path / "study").exists()


def test_weights_that_an_exported_file_lacks_are_said(tmp_path):
    file, exported = board(tmp_path, dataset=np.repeat(["a", "b"], 30)), tmp_path / "all.npz"
    cache, again = (f"--cache={tmp_path / name}" for name in ("cache", "again"))
    assert command("import", file, "--dataset_weights=a=1,b=2.5", cache).returncode == 0
    (said,) = command("export", exported, cache).stdout.splitlines()[1:]
    assert command("import", exported, said.rpartition(" ")[2], again).returncode == 0
    ours, theirs = (EvaluationCache(tmp_path / name).facts() for name in ("cache", "again"))
    assert ours.dataset_weights == theirs.dataset_weights == {"a": 1, "b": 2.5}


def test_bad_features_leave_a_cache_as_it_was(filled, tmp_path):
    cache = EvaluationCache(shutil.copytree(filled / "cache", tmp_path / "cache"))
    file = tmp_path / "features.npz"
    for features, message in (
        (FEATURES[:50], "[60, d]"),
        (HOLED, "features of sample 's7': not all are finite"),
    ):
        np.savez(file, features=features)
        words = ["import", filled / "board.npz", f"--features={file}", f"--cache={cache.directory}"]
        assert message in refused(*words)
        assert cache.features() is None and cache.shape == (12, 60) and cache.verify() == []


def test_samples_without_features_are_counted(tmp_path):
    file = board(tmp_path, features=HOLED)
    said = command("import", file, f"--cache={tmp_path / 'cache'}").stdout
    assert "1 of 60 samples have no features; features are used only where every sample" in said


def test_a_study_that_needs_features_needs_those_of_every_sample(tmp_path):
    file = board(tmp_path, features=HOLED)
    pairs = ["--policies=clusters_features", "--predictors=mean", "--budgets=4"]
    said = refused("study", file, *pairs, f"--out={tmp_path / 'study'}")
    assert "clusters_features: not every sample has features" in said


@pytest.mark.parametrize("words", [["add-model", "--model=new.npz"], ["fit"]])
def test_a_budget_below_the_number_of_data_sets_is_named(filled, tmp_path, words):
    folder = shutil.copytree(filled, tmp_path / "folder")
    said = refused(*words, "--method=datasets+mean", "--cache=cache", "--budget=2", cwd=folder)
    assert "a budget of 2, but at least 3 are needed: one sample of each data set" in said
    assert EvaluationCache(folder / "cache").shape == (12, 60)
    assert not (folder / "cache" / "fits").exists()


def test_a_study_of_budgets_below_the_number_of_data_sets_is_refused(filled, tmp_path):
    words = [filled / "board.npz", "--methods=datasets+mean", f"--out={tmp_path / 'study'}"]
    said = refused("study", *words, "--budgets=1,2")
    assert "datasets+mean on board with a budget of 1, 2" in said


def test_a_study_leaves_out_a_budget_below_the_number_of_data_sets(filled, tmp_path):
    words = [filled / "board.npz", "--methods=datasets+mean", f"--out={tmp_path / 'study'}"]
    done = command("study", *words, "--budgets=2,6", "--seeds=1")
    assert "left out: datasets+mean on board with a budget of 2: at least 3" in done.stdout
    assert pd.read_csv(tmp_path / "study" / "study.csv")["budget"].tolist() == [6]


@pytest.mark.slow
def test_a_fit_of_another_matrix_is_not_used(filled, tmp_path):
    own, other = (shutil.copytree(filled / "cache", tmp_path / name) for name in ("own", "other"))
    extra = board(tmp_path, "extra.npz", ["extra"], correct=1 - VALUES[:1])
    assert command("import", extra, f"--cache={other}").returncode == 0
    settings = ["--method=linear_gaussian", "--budget=6"]
    assert command("fit", *settings, f"--cache={other}").returncode == 0
    (own / "fits").mkdir()
    shutil.copytree(other / "fits" / "linear_gaussian", own / "fits" / "linear_gaussian")
    alone = shutil.copytree(filled / "cache", tmp_path / "alone")
    new = f"--model={filled / 'new.npz'}"
    done = command("add-model", new, *settings, f"--cache={own}")
    assert "the stored fit is of other known models or another seed" in done.stderr
    assert command("add-model", new, *settings, f"--cache={alone}").returncode == 0
    assert read_additions(own) == read_additions(alone)


def killed_until_it_ends(fatal, *words):
    """Runs a command that is killed at its changes of directories, `fatal` in turn, then to its
    end; returns how often it was killed.
    """
    statuses = [
        forked.run("tests.launch.killed_command", number, *words).returncode for number in fatal
    ]
    assert set(statuses) <= {0, -9} and command(*words).returncode == 0
    return statuses.count(-9)


@pytest.mark.parametrize(
    ("fit", "add"), [((2,), (1,)), pytest.param((1, 2, 3, 5), (1, 2), marks=pytest.mark.slow)]
)
def test_a_killed_fit_and_addition_go_on(filled, tmp_path, fit, add):
    whole, killed = (shutil.copytree(filled / "cache", tmp_path / name) for name in ("a", "b"))
    settings = ["--method=linear_gaussian", "--budget=6"]
    new = f"--model={filled / 'new.npz'}"
    assert command("fit", *settings, f"--cache={whole}").returncode == 0
    assert command("add-model", new, *settings, f"--cache={whole}").returncode == 0
    assert killed_until_it_ends(fit, "fit", *settings, f"--cache={killed}") == len(fit)
    kills = killed_until_it_ends(add, "add-model", new, *settings, f"--cache={killed}")
    assert kills == len(add) or read_additions(killed)
    assert read_additions(killed) == read_additions(whole)
    caches = EvaluationCache(whole), EvaluationCache(killed)
    assert np.array_equal(*(cache.matrix(predicted=True) for cache in caches))
    assert caches[1].verify() == []


@pytest.mark.slow
def test_a_killed_study_goes_on(filled, tmp_path):
    words = ["study", filled / "board.npz", "--methods=stratified_mean,linear_gaussian"]
    words += ["--budgets=4,8", "--seeds=2"]
    assert command(*words, f"--out={tmp_path / 'whole'}").returncode == 0
    assert killed_until_it_ends((2, 4, 7), *words, f"--out={tmp_path / 'killed'}") == 3
    whole, killed = (
        pd.read_csv(tmp_path / name / "study.csv").drop(columns="seconds")
        for name in ("whole", "killed")
    )
    assert len(whole) == 8 and whole.equals(killed)
    assert json.loads((tmp_path / "killed" / "study.json").read_text())["known"] == 0.6
