"""Logs that people have: per-sample logs of lm-evaluation-harness, and logs of inspect_ai."""

import json

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import import_file, read_for_cache
from nevis_stream.evaluation_cache.files import read_values
from nevis_stream.evaluation_cache.importers import is_log
from tests import forked

DATE = "2024-06-28T00-00-00.00001"


def harness(folder, model, task, rows, date=DATE, name=None):
    """Writes logs as lm-evaluation-harness does: one line for each sample and filter."""
    directory = folder / model.replace("/", "__")
    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for row in rows:
        line = {
            "doc": {"question": f"q{row['doc_id']}"},
            "target": "A",
            "arguments": {"gen_args_0": {"arg_0": "…"}},
            "resps": [["A"]],
            "filtered_resps": ["A"],
            "doc_hash": f"hash{row['doc_id']}",
            "prompt_hash": "p",
            "target_hash": "t",
        }
        lines.append(json.dumps(line | row) + "\n")
    (directory / f"samples_{task}_{date}.jsonl").write_text("".join(lines))
    if name:
        (directory / f"results_{date}.json").write_text(json.dumps({"model_name": name}))


def multiple_choice(values):
    return [
        {"doc_id": i, "filter": "none", "metrics": ["acc", "acc_norm"], "acc": a, "acc_norm": 1 - a}
        for i, a in enumerate(values)
    ]


def test_several_metrics_of_a_log_are_columns_of_one_prompt(tmp_path):
    harness(tmp_path, "org/a", "arc_easy", multiple_choice([1.0, 0.0, 1.0]))
    harness(tmp_path, "org/b", "arc_easy", multiple_choice([0.0, 0.0]))
    table = import_file(tmp_path / "cache", tmp_path, metrics=["acc_norm+acc"])
    assert table.samples == [
        f"arc_easy/{i}#{name}" for name in ("acc_norm", "acc") for i in range(3)
    ]
    assert table.values.tolist() == [[0, 1, 0, 1, 0, 1], [1, 1, 255, 0, 0, 255]]
    cache = EvaluationCache(tmp_path / "cache")
    assert [(part.name, part.asked_with) for part in cache.facts().parts] == [
        ("acc_norm", None),
        ("acc", 0),
    ]
    harness(tmp_path / "new", "org/c", "arc_easy", multiple_choice([1.0, 1.0, 1.0]))
    new = read_for_cache(cache, tmp_path / "new", metrics=["acc"])
    assert new.samples == [f"arc_easy/{i}#acc" for i in range(3)]
    with pytest.raises(BadInput, match="'accnorm'.*acc_norm"):
        read_values(tmp_path, metrics=["acc+accnorm"])


def test_logs_of_several_models_and_tasks_become_one_matrix(tmp_path):
    harness(tmp_path, "org/a", "arc_easy", multiple_choice([1.0, 0.0, 1.0]))
    harness(tmp_path, "org/b", "arc_easy", multiple_choice([0.0, 0.0]), name="org/b-instruct")
    f1 = [{"doc_id": i, "f1": value, "exact": value == 1.0} for i, value in enumerate((0.25, 1.0))]
    harness(tmp_path, "org/a", "squad_v2", f1)  # an earlier version: neither filter nor metrics
    assert is_log(tmp_path)
    table = read_values(tmp_path)
    assert table.models == ["org/a", "org/b-instruct"]
    assert table.samples == [*(f"arc_easy/{i}" for i in range(3)), "squad_v2/0", "squad_v2/1"]
    nan = np.nan
    expected = [[1, 0, 1, 0.25, 1], [0, 0, nan, nan, nan]]
    assert np.array_equal(table.values, np.float32(expected), equal_nan=True)
    assert table.facts.dataset.tolist() == ["arc_easy"] * 3 + ["squad_v2"] * 2
    assert table.remarks[:4] == (
        "2 models × 5 samples, 3 cells unknown (30%)",
        "models: org/a, org/b-instruct",
        "arc_easy acc: 3 samples, outcomes, mean 0.4000; higher is better (not stated)",
        "squad_v2 f1: 2 samples, scores from 0 to 1, mean 0.6250; higher is better (not stated)",
    )
    assert table.remarks[-2:] == (
        "arc_easy: acc is read; --metrics may name others: acc_norm",
        "squad_v2: f1 is read; --metrics may name others: exact",
    )
    normed = read_values(tmp_path, metrics=["acc_norm", "exact"])
    assert normed.values.tolist() == [[0, 1, 0, 0, 1], [1, 1, 255, 255, 255]]


def test_filters_are_metrics_and_later_logs_replace_earlier_ones(tmp_path):
    def generated(strict, flexible):
        return [
            {"doc_id": 7, "filter": name, "metrics": ["exact_match"], "exact_match": value}
            for name, value in (("strict-match", strict), ("flexible-extract", flexible))
        ]

    harness(tmp_path, "m", "gsm8k", generated(0.0, 0.0), "2024-05-01T00-00-00.0")
    harness(tmp_path, "m", "gsm8k", generated(0.0, 1.0))
    assert read_values(tmp_path).values.tolist() == [[0]]
    table = read_values(tmp_path, metrics=["exact_match,flexible-extract"])
    assert table.values.tolist() == [[1]]
    assert any(
        each.count == 1 and "05-01T00-00-00.0.jsonl (1 sample) of m on gsm8k" in each.example
        for each in table.left_out
    )
    (log,) = (tmp_path / "m").glob(f"*{DATE}.jsonl")
    assert read_values(log).samples == ["gsm8k/7"]


def test_metrics_without_numbers_are_named(tmp_path):
    rows = [{"doc_id": 0, "metrics": ["perplexity", "acc"], "perplexity": [1.0, 2], "acc": 1}]
    harness(tmp_path, "m", "wiki", rows)
    assert "wiki: without a number for each sample: perplexity" in read_values(tmp_path).remarks
    harness(tmp_path / "n", "m", "wiki", [{"doc_id": 0, "perplexity": [1.0, 2]}])
    with pytest.raises(BadInput, match=r"'wiki' has no metric with a number .*\(perplexity\)"):
        read_values(tmp_path / "n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"doc_id": 0, "acc": 1', "line 3: is not JSON"),
        ('{"acc": 1}', "line 3: has no `doc_id`"),
        ('{"doc_id": 1, "acc": 1}', "line 3: sample 1 has acc twice"),
        ('{"doc_id": 2, "acc": 7}', "line 3: model 'm', sample 'arc/2': 7 is not between 0 and 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, said):
    harness(tmp_path, "m", "arc", [{"doc_id": i, "acc": 1.0} for i in range(2)])
    (log,) = (tmp_path / "m").glob("*.jsonl")
    log.write_text(log.read_text() + line + "\n")
    with pytest.raises(BadInput, match=said):
        read_values(tmp_path)


def test_logs_of_different_versions_of_a_task_are_not_mixed(tmp_path):
    harness(tmp_path, "m", "arc", [{"doc_id": 0, "acc": 1.0}])
    harness(tmp_path, "n", "arc", [{"doc_id": 0, "acc": 1.0, "doc_hash": "another"}])
    with pytest.raises(BadInput, match="sample 0 of arc has another content than in"):
        read_values(tmp_path)


def test_logs_are_imported_by_the_command(tmp_path):
    for model in range(6):
        values = [float((i + model) % 3 > 0) for i in range(9)]
        harness(tmp_path / "logs", f"m{model}", "arc", multiple_choice(values))
    done = forked.run("launch.evaluate", "import", tmp_path / "logs", f"--cache={tmp_path / 'c'}")
    assert done.returncode == 0, done.stderr
    assert "arc acc: 9 samples, outcomes" in done.stdout and "6 models × 9 samples" in done.stdout
    words = ["import", tmp_path / "logs", f"--cache={tmp_path / 'd'}", "--metrics=f1"]
    assert "'f1'" in forked.run("launch.evaluate", *words).stderr


def test_logs_of_inspect_are_read_by_its_package(tmp_path):
    inspect_ai = pytest.importorskip("inspect_ai", reason="the extra `logs` is not installed")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match

    samples = [Sample(input=f"q{i}", target="yes", id=f"s{i}") for i in range(3)]
    task = inspect_ai.Task(dataset=samples, scorer=match(), name="quiz")
    for name, answers in (("a", ("yes", "no", "yes")), ("b", ("no", "no", "yes"))):
        outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in answers]
        for output in outputs:
            output.usage = ModelUsage()  # else it counts tokens with a table from the network
        model = get_model(f"mockllm/{name}", custom_outputs=outputs)
        options = {"log_dir": str(tmp_path), "display": "none", "max_connections": 1}
        (log,) = inspect_ai.eval(task, model=model, max_samples=1, **options)
        assert log.status == "success"
    table = read_values(tmp_path)
    by_model = dict(zip(table.models, table.values.tolist(), strict=True))
    assert table.samples == ["quiz/s0", "quiz/s1", "quiz/s2"]
    assert by_model == {"mockllm/a": [1, 0, 1], "mockllm/b": [0, 0, 1]}


def test_without_its_package_a_log_of_inspect_says_what_it_needs(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "x.eval").write_bytes(b"")
    with pytest.raises(BadInput, match=r"'\.\[logs\]'"):
        read_values(tmp_path / "x.eval")
