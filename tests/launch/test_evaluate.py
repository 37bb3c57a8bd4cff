"""launch.evaluate: files and runs into caches, new models and samples, and what is refused."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nevis_stream.dynamic_evaluation import method_study
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.packing import TileFile
from nevis_stream.launch.evaluate import SUBCOMMANDS
from nevis_stream.launch.evaluate_commands.flags import parse_sample_count
from tests import forked

M, N = 14, 80


def command(*words, start=forked.run):
    return start("launch.evaluate", *words)


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


@pytest.fixture
def cache(tmp_path):
    done = command(
        "import", save(tmp_path / "known.npz", outcomes()[:-1]), f"--cache={tmp_path / 'cache'}"
    )
    assert done.returncode == 0, done.stderr
    assert "13 models × 80 samples" in done.stdout
    return tmp_path / "cache"


def test_a_model_of_a_file_is_added_and_shown(cache, tmp_path):
    new = save(tmp_path / "new.npz", outcomes()[-1:], first=13)
    options = ["--budget=16", "--method=sort_and_search"]
    added = command("add-model", f"--model={new}", *options, f"--cache={cache}", start=forked.alone)
    assert added.returncode == 0, added.stderr
    assert "16 of 80 cells observed, the others predicted by sort_and_search" in added.stdout
    assert "estimated by sort_and_search from 16 samples and 13 known models" in added.stdout
    assert "cost of the answers: not recorded in the file; the method itself: " in added.stdout
    for stage in ("fitting", "asking", "predicting"):
        assert f"cache, sort_and_search: {stage}\n" in added.stderr
    shown = command("stats", f"--cache={cache}", start=forked.alone)
    assert "1,056" in shown.stdout, shown.stderr  # 13 rows of 80 and 16
    assert "observed share" in shown.stdout and "known" not in shown.stdout
    assert command("verify", f"--cache={cache}").stdout.strip().endswith("intact")
    assert command("export", tmp_path / "all.npz", f"--cache={cache}").returncode == 0
    merged = command("merge", cache, f"--cache={tmp_path / 'other'}")
    assert "has 14 models × 80 samples" in merged.stdout, merged.stderr
    assert (EvaluationCache(tmp_path / "other").states() == EvaluationCache(cache).states()).all()
    (tmp_path / "many").mkdir()
    cache.rename(tmp_path / "many" / "toys")
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
    new = save(tmp_path / "new.npz", outcomes()[-1:], first=13)
    add = ["add-model", f"--model={new}", "--budget=10", "--method=random_mean"]
    shown = command(*add, f"--cache={cache}").stdout
    count = int((EvaluationCache(cache).matrix(["m13"]) != 255).sum())
    assert f"model m13: {count} of 80 cells observed (30 of them before), the others" in shown
    assert "estimated by random_mean from 10 samples and 13 known models" in shown


def test_a_study_of_files_and_the_metrics_of_a_cache(cache, tmp_path):
    options = ["--methods=published,sort_and_search", "--budgets=8,16,64,640", "--seeds=2"]
    done = command(
        "study", tmp_path / "known.npz", *options, f"--out={tmp_path / 'study'}", start=forked.alone
    )
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "study" / "study.csv")
    assert list(rows.columns) == list(method_study.COLUMNS)
    assert len(rows) == 2 * 3 * 2
    assert (tmp_path / "study" / "known.png").is_file()
    few, words = tmp_path / "few", ["metrics", *options]
    saved = save(tmp_path / "few.npz", outcomes()[:2])
    assert command("import", saved, f"--cache={few}").returncode == 0
    alone = command(*words, f"--cache={few}")
    assert alone.returncode == 2 and "few: 2 models are observed on the same 80" in alone.stderr
    done = command(*words, f"--cache={tmp_path}")  # of both caches
    assert done.returncode == 0, done.stderr
    assert "left out: " in done.stdout and "few: 2 models are observed on" in done.stdout
    assert "60% of the models known, 2 splits" in " ".join(done.stdout.split())
    assert "covered: fraction of 95% intervals that contain the true mean" in done.stdout
    assert forked.run("launch.report", cache, f"--out={tmp_path / 'out'}").returncode == 0
    assert "Cache cache" in (tmp_path / "out" / "report.html").read_text()


def test_each_command_has_its_own_help():
    shown = command("import", "--help")
    assert shown.returncode == 0 and "--features" in shown.stdout, shown.stderr
    assert "--budget" not in shown.stdout and "recommended:" not in shown.stdout
    shown = command("add-model", "--help").stdout
    assert "--budget" in shown and "recommended:" in shown and "random+mean" not in shown
    assert "single_order_floor" not in shown and "oracle_accuracy_prefix" not in shown
    shown = " ".join(command("add-samples", "--help").stdout.split())
    assert "models and samples change places" in shown
    assert "Number of known models that are evaluated on each new sample" in shown
    shown = command("metrics", "--help").stdout
    assert "how accurate the methods are on a cache" in " ".join(shown.split())
    assert "single_order_floor: " in shown
    shown = command("--help").stdout
    assert all(f"\n  {each.name} " in shown and each.summary in shown for each in SUBCOMMANDS)
    assert "--threshold" not in shown
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


def test_a_damaged_cache_is_told_how_to_be_repaired_and_what_is_missing_comes_back(cache, tmp_path):
    new = save(tmp_path / "new.npz", outcomes()[-1:], first=13)
    add = ["add-model", f"--model={new}", "--budget=16", "--method=sort_and_search"]
    assert command(*add, f"--cache={cache}").returncode == 0
    whole = EvaluationCache(cache).states()
    os.truncate(cache / "cells.bin", 64 * 11)
    for words in (
        ["stats"],
        ["metrics"],
        add,
        ["import", tmp_path / "known.npz"],
        ["export", tmp_path / "x.npz"],
        ["verify"],
    ):
        done = command(*words, f"--cache={cache}")
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr
        assert (
            f"python -m launch.evaluate repair --cache={cache} --out=NEW_DIR"
            in done.stderr + done.stdout
        ), words
    repaired = ["repair", f"--cache={cache}"]
    assert "needs --out: Directory of the new cache" in command(*repaired).stderr
    done = command(*repaired, f"--out={tmp_path / 'mended'}")
    assert done.returncode == 0, done.stderr
    assert "(observed correct of model 'm12', 80 cells of columns 0–79" in done.stdout
    assert "mended has 14 models × 80 samples" in done.stdout
    assert command("verify", f"--cache={tmp_path / 'mended'}").stdout.strip().endswith("intact")
    assert (EvaluationCache(tmp_path / "mended").states() != whole).sum() > 160
    for words in (["import", tmp_path / "known.npz"], add):
        done = command(*words, f"--cache={tmp_path / 'mended'}")
        assert done.returncode == 0, done.stderr
    assert (EvaluationCache(tmp_path / "mended").states() == whole).all()
    assert (
        "undamaged, so there is nothing to repair"
        in command("repair", f"--cache={tmp_path / 'mended'}", f"--out={tmp_path / 'x'}").stdout
    )
    (cache / "index.sqlite").unlink()
    for words in (["verify"], repaired + ["--out=x"], ["import", tmp_path / "known.npz"]):
        done = command(*words, f"--cache={cache}")
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


def test_a_study_goes_on_only_with_what_it_is_of(cache, tmp_path):
    options = ["--methods=published", "--budgets=8", "--seeds=1", f"--out={tmp_path / 'study'}"]
    known = tmp_path / "known.npz"
    assert command("study", known, *options).returncode == 0
    assert command("study", known, *options).returncode == 0
    assert (
        "already contains another study (known: there 0.6, now 0.8)"
        in command("study", known, "--known=0.8", *options).stderr
    )
    save(known, 1 - outcomes()[:-1])
    assert (
        "already contains another study (matrices.known: there"
        in command("study", known, *options).stderr
    )
    assert "two files are named" in command("study", known, known, *options).stderr
    assert (
        "fewer than the smallest of --budgets"
        in command("study", known, "--budgets=800", f"--out={tmp_path / 'b'}").stderr
    )


def test_a_file_that_cannot_be_imported_leaves_no_cache(cache, tmp_path):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("model,s0\nm0,7\n")
    assert command("import", wrong, f"--cache={tmp_path / 'none'}").returncode == 2
    assert not (tmp_path / "none").exists()
    for text, message in (
        ("model,s0\nm0,7\n", "model 'm0', sample 's0': 7 is not between 0 and 1"),
        ("", "is empty."),
    ):
        wrong.write_text(text)
        refused = command("import", wrong, f"--cache={tmp_path / 'none'}")
        assert f"error: {wrong}" in refused.stderr and message in refused.stderr
        assert "there is no evaluation cache here" not in refused.stderr
    among = command("import", tmp_path / "known.npz", f"--cache={tmp_path}")
    assert "holds caches" in among.stderr
    assert not (tmp_path / "index.sqlite").exists()


def test_scores_do_not_become_outcomes_without_a_word(tmp_path):
    scores = tmp_path / "scores.csv"
    scores.write_text("model,s0,s1,s2,s3\nm0,0.45,0.9,,0.1\nm1,0.55,0.7,0.2,0.3\n")
    done = command("import", scores, f"--cache={tmp_path / 'cache'}")
    assert "values: 4 samples, scores from 0 to 1, mean 0.4571" in done.stdout, done.stderr
    done = command("import", scores, "--threshold=0.5", f"--cache={tmp_path / 'outcomes'}")
    assert done.returncode == 0, done.stderr
    assert "28.6% of the cells are within 0.1 of it; the mean score is 0.4571" in done.stdout


def test_accuracies_are_given_by_class(tmp_path):
    names, correct = np.array(["cat", "dog", "owl", "ant"])[np.arange(N) % 4], outcomes()
    for path, rows in (("known", range(M - 1)), ("new", [M - 1])):
        np.savez(
            tmp_path / path,
            correct=correct[rows],
            models=[f"m{row}" for row in rows],
            samples=[f"s{j}" for j in range(N)],
            **{"class": names},
        )
    where = f"--cache={tmp_path / 'cache'}"
    assert command("import", tmp_path / "known.npz", where).returncode == 0

    def shown(*words):
        done = command(*words, where)
        assert done.returncode == 0, done.stderr
        rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
        return {row[2]: row[-2] for row in rows if len(row) == 7 and row[2] in names}

    known = {name: f"{correct[:-1, names == name].mean():.4f}" for name in set(names)}
    assert shown("stats") == known
    study = ["--methods=random_mean", "--budgets=8", "--seeds=1"]
    assert shown("metrics", *study) == known
    add = ["add-model", f"--model={tmp_path / 'new.npz'}", "--budget=40", "--method=random_mean"]
    means = shown(*add)
    cells = EvaluationCache(tmp_path / "cache").matrix(["m13"])[0]
    expected = np.where(cells == 255, cells[cells < 255].mean(), cells)  # and not 0 or 1
    assert means == {name: f"{expected[names == name].mean():.4f}" for name in set(names)}


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
