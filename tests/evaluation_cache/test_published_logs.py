"""Inputs that were once misread: what is imported, and what is said of it."""

import os
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import import_file
from nevis_stream.evaluation_cache.records import Imported

CASES = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared")) / "cases/evaluation"


def _import(cache, name, **more):
    path = CASES / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    if name.startswith("inspect"):
        pytest.importorskip("inspect_ai")
    table = import_file(cache, path, **more)
    return "\n".join(Imported(name, table.remarks, table.left_out).lines())


@pytest.mark.parametrize(
    "name, models, samples, mean, said",
    [
        ("inspect_cancelled_newest/log", 1, 8, 0.5, "(2 samples, cancelled)"),
        ("inspect_epoch_reducer/log_max", 1, 3, 2 / 3, "grade,max"),
        ("inspect_epoch_reducer/log_mode", 1, 3, 2 / 3, "grade,mode"),
        ("lm_eval_revisions_collapse", 2, 10, 0.55, "[revision=step1000]"),
        (
            "model_without_the_metric",
            3,
            12,
            0.8,
            "org/B has no exact_match,get-answer on gsm8k (it has exact_match,strict-match)",
        ),
        ("metrics_flag_with_filter/A", 1, 6, 0.5, "exact_match,strict-match is read"),
        ("old_and_related_harness_files/v0.4.0", 1, 4, 0.5, "models: gpt2"),
        ("old_and_related_harness_files/hf_leaderboard", 1, 4, 0.5, "leaderboard_quiz acc"),
        ("old_and_related_harness_files/lmms_eval", 1, 4, 0.5, "models: vlm"),
        ("one_task_blocks_the_directory/A", 1, 4, 1.0, "'wikitext' has no metric with a number"),
        ("one_task_blocks_the_directory/B", 1, 4, 1.0, "'gen' has no metric with a number"),
        ("one_task_blocks_the_directory/C", 1, 4, 0.5, "acc is read before perplexity"),
        ("newest_log_is_a_smoke_test/A", 1, 10, 0.5, "(3 of 10 samples, limited)"),
        ("reported_score_differs/A", 1, 3, 0.0, "0.7500 of 100 samples, not 0.0000 of 3 samples"),
    ],
)
def test_logs(name, models, samples, mean, said, tmp_path):
    assert said in _import(tmp_path / "cache", name)
    cache = EvaluationCache(tmp_path / "cache")
    assert cache.shape == (models, samples)
    assert cache.stats()["mean"] == pytest.approx(mean)


@pytest.mark.parametrize(
    "name, message",
    [
        ("inspect_letter_grades/log", "The grade 'A' .* is not a number; .* --grades=A=…,B=…"),
        ("inspect_same_ids_other_questions/log", "sample 1 of quiz has another content than"),
        ("repeated_trials_in_csv/trials_without_column.csv", "number repeated trials in a column"),
    ],
)
def test_what_has_two_readings_is_refused(name, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        _import(tmp_path / "cache", name)
    assert not (tmp_path / "cache").exists()


def test_a_range_of_a_task_leaves_the_others_as_they_are(tmp_path):
    said = _import(tmp_path / "cache", "range_is_for_all_tasks/l", value_range={"judge": (1, 5)})
    assert "quiz acc: " in said and "judge grade: " in said and "scores from 1 to 5" in said
    cache = EvaluationCache(tmp_path / "cache")
    acc = cache.matrix(samples=[each for each in cache.samples() if each.startswith("quiz")])
    assert set(acc.ravel().tolist()) == {0, 1}


def test_outcomes_and_then_scores(tmp_path):
    for name in ("first", "second"):
        _import(tmp_path / "cache", f"outcomes_then_scores/{name}.csv")
    assert EvaluationCache(tmp_path / "cache").matrix().tolist() == [[1, 0], [0.5, 1]]


def test_grades_are_mapped(tmp_path):
    grades = {"A": 1, "B": 0.75, "F": 0}
    _import(tmp_path / "cache", "inspect_letter_grades/log", grades=grades)
    assert EvaluationCache(tmp_path / "cache").stats()["mean"] == pytest.approx(0.6875)


def test_a_second_import(tmp_path):
    folder = "metric_mixed_in_second_import"
    _import(tmp_path / "a", f"{folder}/f1.csv")
    with pytest.raises(BadInput, match="sample 'squad/1', line 2, has the metric F1 .*, not EM"):
        _import(tmp_path / "a", f"{folder}/em.csv")
    for name in ("two_metrics", "one_metric"):
        _import(tmp_path / "b", f"id_depends_on_the_file/{name}.csv")
    assert EvaluationCache(tmp_path / "b").samples() == ["squad/1#F1", "squad/1#EM"]
