"""launch.transfer_matrix: rows from an Indep run, against Indep, continued, and what is
refused.
"""

import numpy as np
import pandas as pd
import pytest

from nevis_stream.analysis.transfer_matrix import read_matrix
from nevis_stream.errors import BadInput
from nevis_stream.experiments import run_config
from nevis_stream.experiments.transfer import TransferMatrixRun
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


@pytest.mark.slow
def test_the_matrix_compares_each_pair_with_indep_and_is_gone_on_with(indep, tmp_path):
    """It is started in one place and continued in another."""
    begun, tmp_path = tmp_path / "begun", tmp_path / "moved"
    plan = forked.run("launch.transfer_matrix", *start(indep), "--dry_run")
    assert "2 rows with 3 tasks of 2 trials: 6 trainings" in plan.stdout, plan.stderr
    first = forked.alone(
        "launch.transfer_matrix", *start(indep), f"--out={begun}", "--sources=pico_textures"
    )
    assert first.returncode == 0, first.stderr
    begun.rename(tmp_path)
    row_before = (tmp_path / "from-pico_textures" / "ledger.jsonl").stat().st_mtime_ns
    whole = forked.run("launch.transfer_matrix", *start(indep), f"--out={tmp_path}")
    assert whole.returncode == 0, whole.stderr
    matrix = pd.read_csv(tmp_path / "matrix.csv")
    pairs = [
        ("pico_textures", "pico_digits"),
        ("pico_textures", "pico_textures_2"),
        ("pico_digits", "pico_textures_2"),
    ]
    assert list(zip(matrix["source"], matrix["target"], strict=True)) == pairs
    errors = {record.task_id: record.error for record in Ledger(indep).of_kind(PredictRecord)}
    assert matrix["indep_error"].tolist() == pytest.approx(
        [errors[target] for _, target in pairs], abs=1e-6
    )
    assert np.allclose(matrix["gain"], matrix["indep_error"] - matrix["error"], atol=2e-6)
    read = read_matrix(tmp_path)
    assert (
        list(read.domains) == ["pico_textures", "pico_digits", "pico_textures_2"]
        and read.facts["learner"] == "indep"
    )
    assert read.gains.shape == (2, 2)
    assert (tmp_path / "from-pico_textures" / "ledger.jsonl").stat().st_mtime_ns == row_before
    row = Ledger(tmp_path / "from-pico_textures")
    mine = {record.task_id: record for record in Ledger(indep).of_kind(TrainRecord)}
    for record in row.of_kind(TrainRecord):
        hypers = [
            [trial.info["hyper"] for trial in r.trials] for r in (record, mine[record.task_id])
        ]
        assert hypers[0] == hypers[1]  # the usual search
        assert record.trials[0].info["initialised_from"] == "pretrained"
    other = (tmp_path / "weights" / "pico_digits.safetensors").read_bytes()
    (tmp_path / "weights" / "pico_textures.safetensors").write_bytes(other)
    refused = forked.run("launch.transfer_matrix", *start(indep), f"--out={tmp_path}")
    assert refused.returncode == 2 and "another run (pretrained.digest: there " in refused.stderr, (
        refused.stderr
    )
    facts = tmp_path / "matrix.json"
    facts.write_text(facts.read_text().replace('"seed": 0', '"seed": 1'))
    refused = forked.run("launch.transfer_matrix", *start(indep), f"--out={tmp_path}")
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
