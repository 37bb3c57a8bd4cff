"""Every format of logs: what is read of a file as its program writes it, and what is chosen."""

import json
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.files import read_values
from nevis_stream.evaluation_cache.importers import FORMATS, is_log
from tests.evaluation_cache import harness_logs

VALUES = [0.0, 1.0, 1.0]


def harness_lines(metric="acc", values=VALUES):
    return [
        {"doc_id": i, "target": "x", "filter": "none", "metrics": [metric], metric: value}
        for i, value in enumerate(values)
    ]


def dump(path, content, lines=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = map(json.dumps, content) if lines else [json.dumps(content, indent=2)]
    path.write_text("".join(f"{text}\n" for text in texts))


def old_harness(folder):
    config = {"model": "hf", "model_args": "pretrained=org/gpt2,dtype=float"}
    results = {"acc,none": 2 / 3, "alias": "quiz_easy"}
    content = {"results": {"quiz_easy": results}, "configs": {"quiz_easy": {}}, "config": config}
    dump(folder / "results.json", content)
    name = "pretrained__org__gpt2,dtype__float_quiz_easy.jsonl"
    dump(folder / name, harness_lines())
    return "org/gpt2", "quiz_easy", "acc"


def harness(folder):
    date = "2024-06-16T22-09-58.078705"
    dump(folder / "org__m" / f"samples_leaderboard_quiz_{date}.json", harness_lines())
    dump(folder / "org__m" / f"results_{date}.json", {"model_name": "org/m", "results": {}})
    return "org/m", "leaderboard_quiz", "acc"


def leaderboard(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = {
        "example": [f"question {i}" for i in range(3)],
        "metrics": [{"acc": value, "acc_norm": 0.0} for value in VALUES],
        "predictions": [[-1.0, -2.0]] * 3,
    }
    path = folder / "details_org__m" / "2023-09-03T10-57-04.203304"
    path.mkdir(parents=True)
    name = "details_harness|arc:challenge|25_2023-09-03T10-57-04.203304.parquet"
    parquet.write_table(pyarrow.table(rows), path / name)
    return "org/m", "arc:challenge", "acc"


def lmms(folder):
    date = "20250101_120000"
    dump(folder / f"{date}_results.json", {"model_name": "org/vlm", "results": {}})
    lines = [
        {
            "doc_id": i,
            "target": "x",
            "input": "a picture",
            "doc_hash": f"h{i}",
            "mme_score": {"question_id": 40 + i, "score": value, "category": "count"},
        }
        for i, value in enumerate(VALUES)
    ]
    dump(folder / f"{date}_samples_mme.jsonl", lines, lines=True)
    return "org/vlm", "mme", "mme_score,score"


def helm(folder):
    name = "mmlu:subject=law,method=multiple_choice_joint,model=openai_gpt2"
    path = folder / name

    def stat(metric, value):
        return {"name": {"name": metric, "split": "test"}, "count": 1, "mean": value}

    entries = []
    for i, value in enumerate(VALUES):
        entry = {"instance_id": f"id{i}", "train_trial_index": 0}
        costs = {"num_prompt_tokens": 512.0, "num_output_tokens": i, "num_bytes": 40}
        costs |= {"inference_runtime": 6.0, "batch_size": 4}
        entries.append(entry | {"stats": [stat(*each) for each in costs.items()]})
        entries.append(entry | {"stats": [stat("exact_match", value), stat("logprob", -9.5)]})
    perturbed = {"perturbation": {"name": "typos"}, "stats": [stat("exact_match", 0.0)]}
    dump(path / "per_instance_stats.json", [*entries, entries[0] | perturbed])
    adapter = {"model": "openai/gpt2", "method": "multiple_choice_joint", "max_train_instances": 5}
    dump(path / "run_spec.json", {"name": name, "adapter_spec": adapter})
    dump(path / "instances.json", [{"id": f"id{i}", "input": {"text": f"q{i}"}} for i in range(3)])
    return "openai/gpt2", "mmlu:subject=law,method=multiple_choice_joint", "exact_match"


def every_eval_ever(folder):
    lines = [
        {
            "schema_version": "instance_level_eval_0.2.1",
            "evaluation_id": "gsm8k/org/1",
            "model_id": "org/m",
            "evaluation_name": "gsm8k",
            "sample_id": f"gsm8k_{i}",
            "sample_hash": f"h{i}",
            "interaction_type": "single_turn",
            "evaluation": {"score": value, "is_correct": bool(value)},
            "token_usage": {"input_tokens": 512, "output_tokens": i, "total_tokens": 512 + i},
            "performance": {"latency_ms": 1500},
        }
        for i, value in enumerate(VALUES)
    ]
    dump(folder / "1b2c_samples.jsonl", lines, lines=True)
    config = {"lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 1}
    results = [{"evaluation_name": "gsm8k", "metric_config": config}]
    dump(folder / "1b2c.json", {"evaluation_results": results})
    return "org/m", "gsm8k", "score"


MAKERS = (old_harness, harness, leaderboard, lmms, helm, every_eval_ever)


@pytest.mark.parametrize("make", MAKERS)
def test_a_format_is_read(make, tmp_path):
    model, task, metric = make(tmp_path / "logs")
    assert is_log(tmp_path / "logs")
    table = read_values(tmp_path / "logs")
    assert table.models == [model] and table.values.tolist() == [[0, 1, 1]]
    assert all(sample.startswith(f"{task}/") for sample in table.samples)
    assert {each["metric"] for each in table.sample_provenance} == {metric}


@pytest.mark.parametrize("module", [each.read.__module__.split(".")[-1] for each in FORMATS])
def test_every_format_has_a_test(module):
    """A maker here, or a file `test_MODULE.py` of its own."""
    own = Path(__file__).with_name(f"test_{module}.py")
    assert own.is_file() or module in {make.__name__ for make in MAKERS}


@pytest.mark.parametrize("make", [helm, every_eval_ever])
def test_prices_are_learned_from_counts(make, tmp_path):
    make(tmp_path)
    prices = read_values(tmp_path).prices
    assert {unit: each.tolist() for unit, each in prices.items()} == {
        "tokens": [512, 513, 514],
        "seconds": [1.5, 1.5, 1.5],
    }


def test_what_the_files_say_beside_the_values(tmp_path):
    helm(tmp_path / "helm")
    table = read_values(tmp_path / "helm")
    assert all(each["hash"] for each in table.sample_provenance)
    assert "perturbed copies of instances, which are not read: 1 of" in "\n".join(table.remarks)
    assert table.model_provenance[0]["tasks"].popitem()[1]["max_train_instances"] == "5"
    assert "exact_match is read; --metrics may name others: logprob" in "\n".join(table.remarks)
    every_eval_ever(tmp_path / "eee")
    for name, change in (("score", {"max_score": 10}), ("x", {"lower_is_better": True})):
        path = tmp_path / "eee" / "1b2c.json"
        content = json.loads(path.read_text())
        content["evaluation_results"][0]["metric_config"] |= change
        path.write_text(json.dumps(content))
        facts = read_values(tmp_path / "eee", metrics=["score"]).sample_provenance[0]
        assert facts["high"] == 10 and facts["higher_is_better"] == (name == "score")


def test_an_evaluation_of_several_results_has_a_metric_for_each(tmp_path):
    every_eval_ever(tmp_path)
    path, about = tmp_path / "1b2c_samples.jsonl", tmp_path / "1b2c.json"
    first = [json.loads(line) | {"evaluation_result_id": "em"} for line in path.open()]
    grades = {"evaluation": {"score": 4.0, "is_correct": True}, "evaluation_result_id": "judge"}
    dump(path, [*first, *(line | grades for line in first)], lines=True)
    (result,) = json.loads(about.read_text())["evaluation_results"]
    config = {"lower_is_better": False, "min_score": 1, "max_score": 5}
    judge = {"evaluation_result_id": "judge", "metric_config": config}
    dump(about, {"evaluation_results": [result | {"evaluation_result_id": "em"}, result | judge]})
    assert read_values(tmp_path, metrics=["score,em"]).values.tolist() == [[0, 1, 1]]
    table = read_values(tmp_path, metrics=["score,judge"])
    assert table.values.tolist() == [[0.75] * 3] and table.sample_provenance[0]["high"] == 5


def test_a_failed_sample_is_unknown_or_wrong(tmp_path):
    every_eval_ever(tmp_path)
    path = tmp_path / "1b2c_samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] |= {"error": "timeout", "evaluation": {"score": 0.0, "is_correct": False}}
    lines.append(lines[2] | {"model_id": "org/n", "sample_id": "gsm8k_1", "sample_hash": "h1"})
    dump(path, lines, lines=True)
    table = read_values(tmp_path)
    assert table.values.tolist() == [[0, 1, 255], [255, 255, 1]]
    assert "1 cell whose evaluation ended in an error: unknown" in "\n".join(table.remarks)
    table = read_values(tmp_path, errors="wrong")
    assert table.values[0, table.samples.index("gsm8k/gsm8k_1")] == 0
    assert "1 cell whose evaluation ended in an error: count as wrong" in "\n".join(table.remarks)


def test_errors_in_tables_count_at_the_worse_end(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("model,s1,s2\na,1,error\nb,0.5,1\n")
    assert np.isnan(read_values(path).values[0, 1])
    assert read_values(path, errors="wrong").values[0, 1] == 0
    lower = {"errors": "wrong", "lower_is_better": ["all"]}
    assert read_values(path, **lower).values[0, 1] == 1
    path.write_text("model,sample,score,trial\na,s,timeout,1\na,s,1,2\nb,s,timeout,1\n")
    assert read_values(path, errors="wrong").values.ravel().tolist() == [1, 0]


def test_a_metric_is_named_as_it_is_printed_or_by_its_filter(tmp_path):
    strict, loose = ("exact_match,strict-match", "exact_match,flexible-extract")
    lines = [
        {"doc_id": i, "filter": name, "metrics": ["exact_match"], "exact_match": value}
        for i in range(2)
        for name, value in (("strict-match", 0.0), ("flexible-extract", 1.0))
    ]
    path = tmp_path / "samples_gsm8k_2026-01-01T10-00-00.000001.jsonl"
    dump(path, lines, lines=True)
    for words, mean in ((loose, 1), ("flexible-extract", 1), (strict, 0), (f"f1,{loose}", 1)):
        if words.startswith("f1"):
            harness_logs.write(tmp_path, [1.0], "other", model=tmp_path.name, metric="f1")
        table = read_values(tmp_path, metrics=words.split(","))
        assert table.values[0, table.samples.index("gsm8k/0")] == mean
    with pytest.raises(BadInput, match="'gsm8k' has .*strict-match and .*; name one"):
        read_values(tmp_path, metrics=["exact_match"])
    with pytest.raises(BadInput, match="--metrics=exact: .*exact_match"):
        read_values(tmp_path, metrics=["exact"])


def test_a_task_without_numbers_is_left_out_and_blocks_no_other(tmp_path):
    harness_logs.write(tmp_path, [1.0, 0.0], "arc")
    harness_logs.write(tmp_path, [[-200.5, 50]] * 2, "wikitext", metric="word_perplexity")
    table = read_values(tmp_path)
    assert table.samples == ["arc/0", "arc/1"]
    (left_out,) = table.left_out
    assert left_out.count == 1 and "'wikitext' has no metric with a number" in left_out.example
    with pytest.raises(BadInput, match="no metric with a number"):
        read_values(tmp_path / "samples_wikitext_2024-06-28T00-00-00.00001.jsonl")


def test_a_metric_in_its_range_is_read_before_one_without(tmp_path):
    lines = [
        {"doc_id": i, "filter": "none", "perplexity": -3.0 - i, "score": 7.0, "acc": 1.0}
        for i in range(2)
    ]
    dump(tmp_path / "samples_lambada_2026-01-03T10-00-00.000001.jsonl", lines, lines=True)
    table = read_values(tmp_path)
    assert table.values.tolist() == [[1, 1]]
    assert "acc is read before perplexity" in "\n".join(table.remarks)
    assert read_values(tmp_path, metrics=["score"], value_range=(0, 10)).values[0, 0] == 7 / 10


def test_only_some_tasks_are_read(tmp_path):
    for task in ("arc", "quiz"):
        harness_logs.write(tmp_path, [1.0], task)
    assert read_values(tmp_path, tasks=["quiz"]).samples == ["quiz/0"]
    with pytest.raises(BadInput, match="--tasks=quis: .*'quiz'"):
        read_values(tmp_path, tasks=["quis"])
    path = tmp_path / "a.csv"
    path.write_text("model,sample,score,dataset\na,1,1,x\na,2,0,y\nb,2,1,y\n")
    table = read_values(path, tasks=["y"])
    assert table.samples == ["y/2"] and table.values.tolist() == [[0], [1]]
    assert table.left_out[0].reason == "data sets that --tasks does not name"


@pytest.mark.parametrize("name", ["judge", "grade"])
def test_a_range_is_of_a_task_or_a_metric(name, tmp_path):
    harness_logs.write(tmp_path, [1.0, 5.0], "judge", metric="grade")
    harness_logs.write(tmp_path, [1.0, 0.0], "quiz")
    with pytest.raises(BadInput, match="5 is not between 0 and 1.*--range=judge=LOW,HIGH"):
        read_values(tmp_path)
    table = read_values(tmp_path, value_range={name: (1, 5)})
    assert table.values.tolist() == [[0, 1, 1, 0]]
    text = "\n".join(table.remarks)
    assert "judge grade: 2 samples, scores from 1 to 5, mean 3.0000" in text
    assert "quiz acc: 2 samples, outcomes, mean 0.5000" in text
    with pytest.raises(BadInput, match="--range=jugde=…: .*'judge'"):
        read_values(tmp_path, value_range={"jugde": (1, 5)})
    with pytest.raises(BadInput, match="has two ranges"):
        read_values(tmp_path, value_range={"judge": (1, 5), "grade": (0, 5)})
