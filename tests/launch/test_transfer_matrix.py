"""launch.transfer_matrix: rows from an Indep run, against Indep, continued, and what is
refused.
"""

import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nevis_stream.analysis.transfer_matrix import read_matrix
from nevis_stream.configs import run_config
from nevis_stream.configs.transfer import TransferMatrixRun
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream
from tests import forked

FLAGS = [
    "--config.network.name=mlp",
    "--config.network.hidden=(8,)",
    "--config.network.resolution=8",
]
FLAGS += ["--config.train.steps=6", "--config.train.validate_every=3", "--config.search.trials=2"]


@pytest.fixture(scope="module")
def indep(tmp_path_factory):
    """A run of Indep over three tasks of pico, with a small MLP."""
    folder = tmp_path_factory.mktemp("transfer")
    rows = load_stream("pico").tasks
    chosen = [rows[0], rows[5], rows[7]]
    lines = ["order,year,task_id,dataset_id,meta_split,source"]
    from nevis_stream.streams.named_streams import list_stream_rows

    sources = {row["task_id"]: row["source"] for row in list_stream_rows("pico")[1]}
    splits = ("train", "train", "test")
    for order, (task, split) in enumerate(zip(chosen, splits, strict=True), start=1):
        lines.append(
            f"{order},{task.year},{task.task_id},{task.dataset_id},{split},{sources[task.task_id]}"
        )
    (folder / "three.csv").write_text("\n".join(lines) + "\n")
    done = forked.run(
        "launch.run",
        "--config=indep",
        *FLAGS,
        f"--config.stream={folder / 'three.csv'}",
        f"--run_dir={folder / 'indep'}",
    )
    assert done.returncode == 0, done.stderr
    return folder / "indep"


def start(indep):
    return f"--indep={indep}", f"--stream={indep.parent / 'three.csv'}"


@pytest.fixture(scope="module")
def matrix(indep, tmp_path_factory):
    """A matrix that was begun with one row, moved, and continued to its end."""
    place = tmp_path_factory.mktemp("matrix")
    begun, folder = place / "begun", place / "moved"
    first = forked.alone(
        "launch.transfer_matrix", *start(indep), f"--out={begun}", "--sources=pico_textures"
    )
    assert first.returncode == 0, first.stderr
    begun.rename(folder)
    row_before = (folder / "from-pico_textures" / "ledger.jsonl").stat().st_mtime_ns
    whole = forked.run("launch.transfer_matrix", *start(indep), f"--out={folder}")
    assert whole.returncode == 0, whole.stderr
    return SimpleNamespace(folder=folder, row_before=row_before)


@pytest.mark.slow
def test_a_dry_run_counts_the_trainings_of_all_pairs(indep):
    plan = forked.run("launch.transfer_matrix", *start(indep), "--dry_run")
    assert "2 rows with 3 tasks of 2 trials: 6 trainings" in plan.stdout, plan.stderr


@pytest.mark.slow
def test_the_matrix_compares_each_pair_with_indep(indep, matrix):
    table = pd.read_csv(matrix.folder / "matrix.csv")
    pairs = [
        ("pico_textures", "pico_digits"),
        ("pico_textures", "pico_textures_2"),
        ("pico_digits", "pico_textures_2"),
    ]
    assert list(zip(table["source"], table["target"], strict=True)) == pairs
    errors = {record.task_id: record.error for record in Ledger(indep).of_kind(PredictRecord)}
    assert table["indep_error"].tolist() == pytest.approx(
        [errors[target] for _, target in pairs], abs=1e-6
    )
    assert np.allclose(table["gain"], table["indep_error"] - table["error"], atol=2e-6)


@pytest.mark.slow
def test_a_matrix_is_read_with_its_domains_and_its_learner(matrix):
    read = read_matrix(matrix.folder)
    assert (
        list(read.domains) == ["pico_textures", "pico_digits", "pico_textures_2"]
        and read.facts["learner"] == "indep"
    )
    assert read.gains.shape == (2, 2)


@pytest.mark.slow
def test_a_matrix_goes_on_elsewhere_and_keeps_the_row_that_it_had(matrix):
    row = matrix.folder / "from-pico_textures" / "ledger.jsonl"
    assert row.stat().st_mtime_ns == matrix.row_before


@pytest.mark.slow
def test_a_row_is_searched_as_indep_is_and_starts_from_the_weights_of_its_source(indep, matrix):
    row = Ledger(matrix.folder / "from-pico_textures")
    mine = {record.task_id: record for record in Ledger(indep).of_kind(TrainRecord)}
    for record in row.of_kind(TrainRecord):
        hypers = [
            [trial.info["hyper"] for trial in r.trials] for r in (record, mine[record.task_id])
        ]
        assert hypers[0] == hypers[1]
        assert record.trials[0].info["initialised_from"] == "pretrained"


@pytest.mark.slow
def test_a_row_does_not_go_on_from_other_weights(indep, matrix, tmp_path):
    shutil.copytree(matrix.folder, tmp_path / "matrix")
    weights = tmp_path / "matrix" / "weights"
    shutil.copy(weights / "pico_digits.safetensors", weights / "pico_textures.safetensors")
    refused = forked.run("launch.transfer_matrix", *start(indep), f"--out={tmp_path / 'matrix'}")
    assert refused.returncode == 2 and "another run (pretrained.digest: there " in refused.stderr, (
        refused.stderr
    )


@pytest.mark.slow
def test_a_matrix_does_not_go_on_with_another_seed(indep, matrix, tmp_path):
    shutil.copytree(matrix.folder, tmp_path / "matrix")
    facts = tmp_path / "matrix" / "matrix.json"
    facts.write_text(facts.read_text().replace('"seed": 0', '"seed": 1'))
    refused = forked.run("launch.transfer_matrix", *start(indep), f"--out={tmp_path / 'matrix'}")
    assert "the matrix of another run (seed: there 1, now 0)" in refused.stderr


@pytest.mark.parametrize("inside", ["", "transfer/mine"])
def test_a_matrix_is_not_written_into_a_run(indep, inside):
    files = sorted(indep.rglob("*"))
    refused = forked.run("launch.transfer_matrix", *start(indep), f"--out={indep / inside}")
    assert (
        refused.returncode == 2
        and f"is inside the run directory {indep.resolve()}" in refused.stderr
    )
    assert sorted(indep.rglob("*")) == files


def test_what_is_no_complete_run_of_indep_is_refused(indep, tmp_path):
    with pytest.raises(BadInput, match="'alpha'"):
        TransferMatrixRun(indep, tmp_path, ["alpha"], str(indep.parent / "three.csv"))
    with pytest.raises(BadInput, match="not the directory of a run"):
        TransferMatrixRun(tmp_path, tmp_path)
    config = run_config.make_default("nearest_class_mean")
    config = run_config.resolve(config)
    run(config.build(), "pico", tmp_path / "ncm", config=run_config.to_json(config))
    refused = forked.run("launch.transfer_matrix", f"--indep={tmp_path / 'ncm'}", "--dry_run")
    assert refused.returncode == 2 and "this is one of nearest_class_mean" in refused.stderr
