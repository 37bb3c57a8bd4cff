"""Run directories of the previous format (ledger schema 2, config without a schema): every
reader still accepts them.
"""

import csv
import io
import json
import math
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from nevis_stream.analysis.points import point
from nevis_stream.analysis.runs import group_by_stream, read_runs
from nevis_stream.configs.recorded import open_run
from nevis_stream.errors import BadInput
from nevis_stream.launch import run_screen
from nevis_stream.launch.run_state import state_of
from nevis_stream.report.build import write_report
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord, parse
from nevis_stream.run_directory.scalars import read_timing
from nevis_stream.runner import run
from nevis_stream.storage.record import encode
from nevis_stream.streams.named_streams import load_stream
from tests import toy

GOLDEN = Path(__file__).parents[1] / "golden"
RUNS = [GOLDEN / "ft_prev", GOLDEN / "indep"]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_every_line_is_its_record_again(path):
    for line in (path / "ledger.jsonl").read_text().splitlines():
        assert encode(parse(json.loads(line)).to_json()) == line


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_ledger_and_config(path):
    ledger, config = Ledger(path), read_config(path)
    assert ledger.complete and ledger.header.schema == 2 and config.schema == 1
    assert ledger.header.config_hash == config.config_hash
    assert config.values["stream"] == "two" and config.values["seed"] == 0
    assert [r.task_id for r in ledger.of_kind(TrainRecord)] == ["pico_mosaic", "pico_shapes"]
    for predicted in ledger.of_kind(PredictRecord):
        assert predicted.train_event is None
        assert ledger.training_of(predicted).event == predicted.event - 1
        outcomes = ledger.outcomes(predicted)
        assert len(outcomes["sample_id"]) == predicted.n
    for train in ledger.of_kind(TrainRecord):
        assert all(isinstance(n, int) for n in train.flops["train"].values())
    assert len(ledger.to_pandas()) == 2
    assert [record.event for record in read_timing(path)] == [0, 1, 2, 3]


def test_analysis_report_and_watch(tmp_path):
    runs, left_out = read_runs(RUNS)
    assert not left_out and len(group_by_stream(runs)) == 1
    assert all(math.isfinite(point(r.ledger).error) for r in runs)
    page = write_report(RUNS, tmp_path / "report").read_text()
    assert "learners (ft_prev, indep)" in page
    for path in RUNS:
        state = state_of(path)
        assert state.complete and state.done == 2 and not state.trouble
        console = Console(width=100)
        with console.capture() as captured:
            console.print(run_screen.render([state], console))
        assert "2 of 2 tasks" in captured.get()


def test_its_predictors_can_be_asked(tmp_path):
    rows = "order,year,task_id,dataset_id,meta_split\n"
    rows += "1,2010,pico_mosaic,pico_mosaic,train\n2,2016,pico_shapes,pico_shapes,test\n"
    (tmp_path / "two.csv").write_text(rows)
    kept = open_run(GOLDEN / "indep", str(tmp_path / "two.csv"))
    assert [p.trial for p in kept.predictors] == [0, 1, 0, 1]
    recorded = list(csv.DictReader((GOLDEN / "indep" / "stream.csv").open(newline="")))
    stream = load_stream(str(tmp_path / "two.csv"))
    built = list(csv.DictReader(io.StringIO(stream.csv)))
    # other versions of Pillow may draw other pixels (docs/pico.md)
    same_pixels = [row.pop("fingerprint") for row in built] == [
        row.pop("fingerprint") for row in recorded
    ]
    assert built == recorded
    assert (stream.digest == kept.ledger.header.stream_digest) == same_pixels


def test_it_is_not_continued(tmp_path):
    shutil.copytree(GOLDEN / "indep", tmp_path / "run")
    with pytest.raises(BadInput, match="started by an earlier version.*Choose another run_dir"):
        run(toy.ToyLearner(), toy.stream(), tmp_path / "run")
