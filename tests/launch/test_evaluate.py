"""launch.evaluate: files and runs into caches, new models and samples, and what is refused."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.packing import TileFile
from nevis_stream.experiments.evaluation_studies import method_study
from nevis_stream.launch.evaluate import SUBCOMMANDS
from nevis_stream.launch.evaluate_commands.flags import parse_sample_count
from tests import forked

M, N = 14, 80


SORTED = ["--budget=16", "--method=sort_and_search"]
STUDY = ["--methods=published,sort_and_search", "--budgets=8,16,64,640", "--seeds=2"]


def command(*words, start=forked.run, **options):
    return start("launch.evaluate", *words, **options)


def outcomes():
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(M, 1)) + 2 * rng.normal(size=(1, N)) + 0.3 * rng.normal(size=(M, N)) > 0
    ).astype(np.uint8)


def save(path, correct, first=0):
    models = [f"m{first + i}" for i in range(len(correct))]
    np.savez(
        path, correct=correct, models=models, samples=[f"s{j}" for j in range(correct.shape[1])]
    )
    return path


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A folder with a file of 13 models, one of a new model and a cache of the first, and what the
    import said.
    """
    folder = tmp_path_factory.mktemp("imported")
    save(folder / "known.npz", outcomes()[:-1])
    save(folder / "new.npz", outcomes()[-1:], first=13)
    done = command("import", "known.npz", "--cache=cache", cwd=folder)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, said=done.stdout)


@pytest.fixture
def cache(imported, tmp_path):
    """The cache of a copy of the folder, to be changed."""
    shutil.copytree(imported.folder, tmp_path, dirs_exist_ok=True)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def added(imported, tmp_path_factory):
    """A copy of the folder in which the new model was added to the cache, and what was said."""
    folder = shutil.copytree(imported.folder, tmp_path_factory.mktemp("added") / "folder")
    words = [f"--model={folder / 'new.npz'}", f"--cache={folder / 'cache'}"]
    done = command("add-model", *words, *SORTED, start=forked.alone)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, cache=folder / "cache", done=done)


def test_an_import_says_what_the_cache_has(imported):
    assert "13 models × 80 samples" in imported.said


def test_a_model_of_a_file_is_added_with_its_estimate_and_its_cost(added):
    said = added.done.stdout
    assert "16 of 80 cells observed, the others predicted by sort_and_search" in said
    assert "estimated by sort_and_search from 16 samples and 13 known models" in said
    assert "cost of the answers: not recorded in the file; the method itself: " in said


def test_the_stages_of_an_addition_are_shown(added):
    for stage in ("fitting", "asking", "predicting"):
        assert f"cache, sort_and_search: {stage}\n" in added.done.stderr


def test_the_observed_cells_of_an_added_model_are_counted(added):
    shown = command("stats", f"--cache={added.cache}", start=forked.alone)
    assert "1,056" in shown.stdout, shown.stderr  # 13 rows of 80 and 16
    assert "observed share" in shown.stdout and "known" not in shown.stdout


def test_a_cache_with_an_added_model_is_intact(added):
    assert command("verify", f"--cache={added.cache}").stdout.strip().endswith("intact")


def test_a_cache_with_an_added_model_is_exported(added, tmp_path):
    assert command("export", tmp_path / "all.npz", f"--cache={added.cache}").returncode == 0
    assert (tmp_path / "all.npz").is_file()


def test_a_cache_is_merged_into_a_new_one(added, tmp_path):
    merged = command("merge", added.cache, f"--cache={tmp_path / 'other'}")
    assert "has 14 models × 80 samples" in merged.stdout, merged.stderr
    states = EvaluationCache(tmp_path / "other").states()
    assert (states == EvaluationCache(added.cache).states()).all()


def test_a_folder_of_caches_is_merged_by_their_names(added, tmp_path):
    shutil.copytree(added.cache, tmp_path / "many" / "toys")
    merged = command("merge", tmp_path / "many", f"--cache={tmp_path / 'all'}")
    assert merged.returncode == 0, merged.stderr
    assert EvaluationCache(tmp_path / "all" / "toys").shape == (14, 80)


def test_a_complete_model_is_not_added_again(cache, tmp_path):
    again = command(
        "add-model", f"--model={tmp_path / 'known.npz'}", "--budget=8", f"--cache={cache}"
    )
    assert again.returncode == 0, again.stderr
    accuracies = outcomes()[:-1].mean(axis=1)
    for model, accuracy in enumerate(accuracies):
        rank = 1 + (accuracies > accuracy + 1e-9).sum()
        assert (
            f"model m{model}: already complete: nothing to ask\n"
            f"  accuracy {accuracy:.4f}, rank {rank} of 13 known models\n"
        ) in again.stdout
    assert not (cache / "additions.jsonl").exists() and not again.stderr.strip()


def test_what_was_observed_before_is_not_what_the_estimate_rests_on(cache, tmp_path):
    part = tmp_path / "part.npz"
    np.savez(
        part, correct=outcomes()[-1:, :30], models=["m13"], samples=[f"s{j}" for j in range(30)]
    )
    assert command("import", part, f"--cache={cache}").returncode == 0
    add = ["add-model", f"--model={tmp_path / 'new.npz'}", "--budget=10", "--method=random_mean"]
    shown = command(*add, f"--cache={cache}").stdout
    count = int((EvaluationCache(cache).matrix(["m13"]) != 255).sum())
    assert f"model m13: {count} of 80 cells observed (30 of them before), the others" in shown
    assert "estimated by random_mean from 10 samples and 13 known models" in shown


def test_a_study_of_a_file_is_a_table_and_a_figure(imported, tmp_path):
    known = imported.folder / "known.npz"
    done = command("study", known, *STUDY, f"--out={tmp_path / 'study'}", start=forked.alone)
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "study" / "study.csv")
    assert list(rows.columns) == list(method_study.COLUMNS)
    assert len(rows) == 2 * 3 * 2
    assert (tmp_path / "study" / "known.png").is_file()


@pytest.fixture(scope="module")
def measured(imported, tmp_path_factory):
    """A copy of the folder with a second cache, of two models, after metrics of both, and what was
    said.
    """
    folder = shutil.copytree(imported.folder, tmp_path_factory.mktemp("measured") / "folder")
    save(folder / "few.npz", outcomes()[:2])
    assert command("import", "few.npz", "--cache=few", cwd=folder).returncode == 0
    done = command("metrics", *STUDY, "--cache=.", cwd=folder)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, said=done.stdout)


def test_metrics_of_a_cache_say_what_they_rest_on(measured):
    assert "60% of the models known, 2 splits" in " ".join(measured.said.split())
    assert "covered: fraction of 95% intervals that contain the true mean" in measured.said


def test_metrics_of_several_caches_leave_out_that_of_few_models(measured):
    assert "left out: " in measured.said and "few: 2 models are observed on" in measured.said


def test_metrics_of_a_cache_of_few_models_alone_are_refused(measured):
    alone = command("metrics", *STUDY, "--cache=few", cwd=measured.folder)
    assert alone.returncode == 2 and "few: 2 models are observed on the same 80" in alone.stderr


def test_a_report_shows_a_cache_with_metrics(measured, tmp_path):
    words = [measured.folder / "cache", f"--out={tmp_path / 'out'}"]
    done = forked.run("launch.report", *words)
    assert done.returncode == 0, done.stderr
    assert "Cache cache" in (tmp_path / "out" / "report.html").read_text()


def test_help_of_an_import_has_no_flags_of_additions():
    shown = command("import", "--help")
    assert shown.returncode == 0 and "--features" in shown.stdout, shown.stderr
    assert "--budget" not in shown.stdout and "recommended:" not in shown.stdout


def test_help_of_an_addition_names_the_methods_that_can_be_used_for_it():
    shown = command("add-model", "--help").stdout
    assert "--budget" in shown and "recommended:" in shown and "random+mean" not in shown
    assert "single_order_floor" not in shown and "oracle_accuracy_prefix" not in shown


def test_help_of_new_samples_tells_what_changes_places():
    shown = " ".join(command("add-samples", "--help").stdout.split())
    assert "models and samples change places" in shown
    assert "Number of known models that are evaluated on each new sample" in shown


def test_help_of_metrics_names_what_is_compared_with_methods():
    shown = command("metrics", "--help").stdout
    assert "how accurate the methods are on a cache" in " ".join(shown.split())
    assert "single_order_floor: " in shown


def test_help_without_a_command_has_a_line_for_each():
    shown = command("--help").stdout
    assert all(f"\n  {each.name} " in shown and each.summary in shown for each in SUBCOMMANDS)
    assert "--threshold" not in shown


def test_a_flag_of_another_command_is_refused_with_those_of_this_one():
    refused = command("stats", "--budget=3", "--cache=x")
    assert refused.stderr.startswith("error: ")
    assert "'--budget'" in refused.stderr and ": --cache." in refused.stderr


def test_a_budget_is_a_number_or_a_share():
    assert [parse_sample_count(text, 791) for text in ("64", "5%", "0.01%", "100%")] == [
        64,
        40,
        1,
        791,
    ]
    for text in ("0", "-3", "2.5", "5 %%", "0%", "101%", "nan%", "many"):
        with pytest.raises(BadInput, match=f"--budget={text}: a whole number"):
            parse_sample_count(text, 791)


def test_damage_is_found_by_name(cache):
    path = TileFile(cache / "cells.bin").path
    data = bytearray(path.read_bytes())
    data[3] ^= 16
    path.write_bytes(data)
    done = command("verify", f"--cache={cache}")
    assert done.returncode == 1
    assert "1 damaged" in done.stdout
    assert "tile 1 (observed correct of model 'm0'" in done.stdout


@pytest.fixture(scope="module")
def damaged(added, tmp_path_factory):
    """A folder whose cache has lost the end of its cells."""
    folder = shutil.copytree(added.folder, tmp_path_factory.mktemp("damaged") / "folder")
    os.truncate(folder / "cache" / "cells.bin", 64 * 11)
    return folder


@pytest.fixture(scope="module")
def mended(damaged, tmp_path_factory):
    """A copy of the folder with a repaired cache, and what the repair said."""
    folder = shutil.copytree(damaged, tmp_path_factory.mktemp("mended") / "folder")
    done = command("repair", "--cache=cache", "--out=mended", cwd=folder)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, said=done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["stats"],
        ["metrics"],
        ["add-model", "--model=new.npz", *SORTED],
        ["import", "known.npz"],
        ["export", "x.npz"],
        ["verify"],
    ],
    ids=lambda words: words[0],
)
def test_each_command_tells_how_a_damaged_cache_is_repaired(damaged, words):
    done = command(*words, "--cache=cache", cwd=damaged)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    advice = "python -m launch.evaluate repair --cache=cache --out=NEW_DIR"
    assert advice in done.stderr + done.stdout


def test_a_repair_needs_a_place_for_the_new_cache(damaged):
    refused = command("repair", "--cache=cache", cwd=damaged)
    assert "needs --out: Directory of the new cache" in refused.stderr


def test_a_repair_names_what_is_lost_and_what_is_left(mended):
    assert "(observed correct of model 'm12', 80 cells of columns 0–79" in mended.said
    assert "mended has 14 models × 80 samples" in mended.said


def test_a_repaired_cache_is_intact_and_lacks_what_is_lost(added, mended):
    verified = command("verify", "--cache=mended", cwd=mended.folder)
    assert verified.stdout.strip().endswith("intact")
    states = EvaluationCache(mended.folder / "mended").states()
    assert (states != EvaluationCache(added.cache).states()).sum() > 160


def test_what_a_repaired_cache_lacks_comes_back_by_the_commands_that_made_it(
    added, mended, tmp_path
):
    folder = shutil.copytree(mended.folder, tmp_path / "folder")
    for words in (["import", "known.npz"], ["add-model", "--model=new.npz", *SORTED]):
        done = command(*words, "--cache=mended", cwd=folder)
        assert done.returncode == 0, done.stderr
    states = EvaluationCache(folder / "mended").states()
    assert (states == EvaluationCache(added.cache).states()).all()


def test_an_undamaged_cache_is_not_repaired(mended):
    done = command("repair", "--cache=mended", "--out=x", cwd=mended.folder)
    assert "undamaged, so there is nothing to repair" in done.stdout


@pytest.mark.parametrize(
    "words",
    [["verify"], ["repair", "--out=x"], ["import", "known.npz"]],
    ids=lambda words: words[0],
)
def test_a_cache_without_its_index_cannot_be_repaired(damaged, tmp_path, words):
    folder = shutil.copytree(damaged, tmp_path / "folder")
    (folder / "cache" / "index.sqlite").unlink()
    done = command(*words, "--cache=cache", cwd=folder)
    assert "its index.sqlite is gone. This cannot be repaired" in done.stderr + done.stdout


def test_what_a_damaged_index_says_is_no_traceback(cache):
    with contextlib.closing(sqlite3.connect(cache / "index.sqlite")) as db, db:
        db.execute("UPDATE tiles SET span = 3, model = model + 100 WHERE number = 3")
    add = [
        "add-model",
        f"--model={cache.parent / 'known.npz'}",
        "--budget=16",
        "--method=sort_and_search",
    ]
    for words in (["stats"], ["metrics", "--budgets=8", "--seeds=1"], add):
        done = command(*words, f"--cache={cache}")
        assert "Traceback" not in done.stderr and done.returncode == 2, done.stderr
        assert "tile 3: is of a model beyond the" in done.stderr and "repair" in done.stderr


def test_a_cache_that_cannot_be_opened_does_not_hide_the_others(cache):
    both = cache.parent / "both"
    for name in ("a", "b"):
        shutil.copytree(cache, both / name)
    for path in (both / "a").glob("index.sqlite*"):
        path.unlink()
    (both / "a" / "index.sqlite").write_bytes(b"no index" * 100)
    done = command("verify", f"--cache={both}")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"{both / 'a'}: 1 damaged" in done.stdout and f"{both / 'b'}: intact" in done.stdout


QUICK = ["--methods=published", "--budgets=8", "--seeds=1", "--out=study"]


@pytest.fixture(scope="module")
def studied(imported, tmp_path_factory):
    """A copy of the folder with a study of the file."""
    folder = shutil.copytree(imported.folder, tmp_path_factory.mktemp("studied") / "folder")
    done = command("study", "known.npz", *QUICK, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_study_goes_on_with_what_it_is_of(studied, tmp_path):
    folder = shutil.copytree(studied, tmp_path / "folder")
    again = command("study", "known.npz", *QUICK, cwd=folder)
    assert again.returncode == 0, again.stderr


def test_a_study_does_not_go_on_with_other_settings(studied):
    other = command("study", "known.npz", "--known=0.8", *QUICK, cwd=studied)
    assert "already contains another study (known: there 0.6, now 0.8)" in other.stderr


def test_a_study_does_not_go_on_with_other_outcomes(studied, tmp_path):
    folder = shutil.copytree(studied, tmp_path / "folder")
    save(folder / "known.npz", 1 - outcomes()[:-1])
    other = command("study", "known.npz", *QUICK, cwd=folder)
    assert "already contains another study (matrices.known: there" in other.stderr


def test_a_study_of_two_files_of_one_name_is_refused(studied):
    twice = command("study", "known.npz", "known.npz", *QUICK, cwd=studied)
    assert "two files are named" in twice.stderr


def test_a_study_of_fewer_samples_than_its_budgets_is_refused(imported, tmp_path):
    words = ["known.npz", "--budgets=800", f"--out={tmp_path / 'study'}"]
    refused = command("study", *words, cwd=imported.folder)
    assert "fewer than the smallest of --budgets" in refused.stderr


@pytest.mark.parametrize(
    "text,message",
    [
        ("model,s0\nm0,7\n", "model 'm0', sample 's0': 7 is not between 0 and 1"),
        ("", "is empty."),
    ],
)
def test_a_file_that_cannot_be_imported_leaves_no_cache(tmp_path, text, message):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(text)
    refused = command("import", wrong, f"--cache={tmp_path / 'none'}")
    assert refused.returncode == 2 and not (tmp_path / "none").exists()
    assert f"error: {wrong}" in refused.stderr and message in refused.stderr
    assert "there is no evaluation cache here" not in refused.stderr


@pytest.mark.usefixtures("cache")
def test_a_folder_of_caches_does_not_become_a_cache(tmp_path):
    among = command("import", tmp_path / "known.npz", f"--cache={tmp_path}")
    assert "holds caches" in among.stderr
    assert not (tmp_path / "index.sqlite").exists()


@pytest.fixture
def scores(tmp_path):
    """A file of scores between 0 and 1."""
    path = tmp_path / "scores.csv"
    path.write_text("model,s0,s1,s2,s3\nm0,0.45,0.9,,0.1\nm1,0.55,0.7,0.2,0.3\n")
    return path


def test_scores_do_not_become_outcomes_without_a_word(scores, tmp_path):
    done = command("import", scores, f"--cache={tmp_path / 'cache'}")
    assert "values: 4 samples, scores from 0 to 1, mean 0.4571" in done.stdout, done.stderr


def test_scores_that_become_outcomes_are_compared_with_the_threshold(scores, tmp_path):
    done = command("import", scores, "--threshold=0.5", f"--cache={tmp_path / 'outcomes'}")
    assert done.returncode == 0, done.stderr
    assert "28.6% of the cells are within 0.1 of it; the mean score is 0.4571" in done.stdout


CLASSES = np.array(["cat", "dog", "owl", "ant"])[np.arange(N) % 4]


@pytest.fixture(scope="module")
def of_classes(tmp_path_factory):
    """A folder with a cache whose samples have classes, and with a new model's file."""
    folder = tmp_path_factory.mktemp("of_classes")
    for path, rows in (("known", range(M - 1)), ("new", [M - 1])):
        np.savez(
            folder / path,
            correct=outcomes()[rows],
            models=[f"m{row}" for row in rows],
            samples=[f"s{j}" for j in range(N)],
            **{"class": CLASSES},
        )
    done = command("import", "known.npz", "--cache=cache", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def accuracies(folder, *words):
    """The accuracy of each class in the table that a command prints."""
    done = command(*words, "--cache=cache", cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    return {row[2]: row[-2] for row in rows if len(row) == 7 and row[2] in CLASSES}


@pytest.mark.parametrize(
    "words",
    [["stats"], ["metrics", "--methods=random_mean", "--budgets=8", "--seeds=1"]],
    ids=lambda words: words[0],
)
def test_accuracies_of_a_cache_are_given_by_class(of_classes, words):
    correct = outcomes()[:-1]
    expected = {name: f"{correct[:, name == CLASSES].mean():.4f}" for name in set(CLASSES)}
    assert accuracies(of_classes, *words) == expected


def test_accuracies_of_an_added_model_are_given_by_class(of_classes, tmp_path):
    folder = shutil.copytree(of_classes, tmp_path / "folder")
    add = ["add-model", "--model=new.npz", "--budget=40", "--method=random_mean"]
    means = accuracies(folder, *add)
    cells = EvaluationCache(folder / "cache").matrix(["m13"])[0]
    expected = np.where(cells == 255, cells[cells < 255].mean(), cells)  # and not 0 or 1
    assert means == {name: f"{expected[name == CLASSES].mean():.4f}" for name in set(CLASSES)}


def test_a_run_whose_stream_was_a_csv_asks_for_it(tmp_path):
    run = Path(__file__).parents[1] / "golden" / "indep"
    refused = command("import", run, f"--cache={tmp_path / 'cache'}")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert f"error: {run}: " in refused.stderr and "'two'" in refused.stderr
    assert "give its path with --stream=my_stream.csv" in refused.stderr
    assert "there is no evaluation cache here" not in refused.stderr
    assert not (tmp_path / "cache").exists()


def test_features_of_files_are_files_and_those_of_runs_backbones(cache, tmp_path):
    run = Path(__file__).parents[1] / "golden" / "indep"
    board, features = tmp_path / "known.npz", tmp_path / "features.npz"
    np.savez(features, features=np.zeros((N, 2)))
    for words, message in (
        ([run, f"--features={features}"], "for runs, whose images are described by a backbone"),
        ([run, board, f"--features={features}"], "import runs and files by one command each"),
        ([run, f"--features={run}"], f"{run}: not a checkpoint, RUN/checkpoints/EVENT-TASK"),
        ([board, f"--features={run}"], "for files of models × samples, it is a FILE.npz"),
    ):
        refused = command("import", *words, f"--cache={tmp_path / 'new'}")
        assert refused.returncode == 2 and message in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr and not (tmp_path / "new").exists()


def test_mistakes_are_told_in_a_line(cache, tmp_path):
    text = tmp_path / "text.csv"
    text.write_text("model,s0,s1\nm0,1,perhaps\n")
    one = tmp_path / "one.csv"
    one.write_text("model,x0,x1\nm0,1,0\n")
    for words, output in (
        (["imprt"], "'import'"),
        (["stats"], "stats needs --cache: Directory"),
        (["stats", f"--cache={tmp_path}/nowhere"], "there is no evaluation cache here"),
        (["import", text, f"--cache={cache}"], "perhaps"),
        (["import", cache, f"--cache={cache}"], "`merge` adds it"),
        (["add-model", "--model=x.npz", f"--cache={cache}"], "needs --budget"),
        (
            ["add-model", f"--model={tmp_path / 'known.npz'}", "--budget=81", f"--cache={cache}"],
            f"--budget=81: {cache} has only 80 samples.",
        ),
        (
            [
                "add-model",
                f"--model={tmp_path / 'known.npz'}",
                "--budget=8",
                "--method=everything+mean",
                f"--cache={cache}",
            ],
            "'everything+mean' looks at every cell",
        ),
        (
            ["add-samples", f"--samples={one}", "--budget=2", f"--cache={cache}"],
            f"error: {one}: 12 of the 13 known models cannot be evaluated on the new samples: 'm1',"
            " 'm2', 'm3' and 9 more.",
        ),
        (
            ["add-model", "--model=x.npz", "--budget=0%", f"--cache={cache}"],
            "--budget=0%: a whole number from 1 up",
        ),
        (
            ["study", tmp_path / "known.npz", "--budgets="],
            "flag --budgets=: '' is not a whole number above 0",
        ),
        (["study", tmp_path / "known.npz", "--budgets=8,x"], "'x' is not a whole number above 0"),
        (["import", text, "--range=1,0", f"--cache={cache}"], "flag --range=1,0: two numbers"),
        (["import", text, "--range=1", f"--cache={cache}"], "flag --range=1: two numbers"),
        (
            ["import", text, "--dataset_weights=a=1,b", f"--cache={cache}"],
            "'b' is not NAME=WEIGHT",
        ),
        (
            ["add-model", "--model=x.npz", "--budget=4", f"--seed={2**64}", f"--cache={cache}"],
            "--seed",
        ),
        (
            ["study", tmp_path / "known.npz", "--known=0.01", f"--out={tmp_path / 'st'}"],
            "known: a known fraction of 0.01",
        ),
        (
            ["add-model", "--model=x.npz", "--budget=4", "--method=published", f"--cache={cache}"],
            "It is a file, a checkpoint",
        ),
        (
            ["add-model", f"--model={text}", "--budget=4", "--method=guess", f"--cache={cache}"],
            "'guess'",
        ),
        (
            ["add-model", f"--model={text}", "--trial=3", "--budget=4", f"--cache={cache}"],
            "--trial=3 needs a checkpoint",
        ),
        (
            ["add-model", f"--model={tmp_path}", "--name=m0", "--budget=4", f"--cache={cache}"],
            "--name=m0 needs a file",
        ),
        (
            ["add-samples", "--splits=test", "--budget=4", f"--cache={cache}"],
            "none of its models came from a run",
        ),
    ):
        done = command(*words)
        assert done.returncode == 2, words
        assert output in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr
