"""Which row a log belongs to, and which of several logs counts."""

import math

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.files import read_values
from tests.evaluation_cache.harness_logs import write

DATES = [f"2024-06-{day}T00-00-00.00001" for day in (27, 28, 29)]


def rows(table):
    """Returns the known values of each row, by sample."""
    return {
        model: {
            sample: value
            for sample, value in zip(table.samples, row, strict=True)
            if value != 255 and value == value
        }
        for model, row in zip(table.models, table.values.tolist(), strict=True)
    }


def means(table):
    known = rows(table)
    return {model: sum(each.values()) / len(each) for model, each in known.items()}


def line(table, start):
    """Returns the only remark that begins with some words."""
    (found,) = [each for each in lines(table) if each.startswith(start)]
    return found


def lines(table):
    """Returns what is said about a table."""
    return [*table.remarks, *(each.line() for each in table.left_out)]


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (
            {"model_args": "pretrained=org/m,revision=step1"},
            {"model_args": {"pretrained": "org/m", "revision": "step2"}},
            ["org/m [revision=step1]", "org/m [revision=step2]"],
        ),
        (
            {"model_args": {"pretrained": "org/m"}},
            {"model_args": "pretrained=org/m,revision=step2,dtype=float16"},
            ["org/m [revision=main]", "org/m [revision=step2]"],
        ),
        (
            {"model_args": "pretrained=org/m,peft=org/lora"},
            {"model_args": "pretrained=org/m"},
            ["org/m [peft=none]", "org/m [peft=org/lora]"],
        ),
        (
            {"model_args": "model=org/m,reasoning_effort=high"},
            {"model_args": "model=org/m,reasoning_effort=low"},
            ["org/m [reasoning_effort=high]", "org/m [reasoning_effort=low]"],
        ),
    ],
)
def test_models_that_differ_under_one_name_are_rows_of_their_own(tmp_path, first, second, names):
    write(tmp_path / "a", [1, 1, 0], date=DATES[0], config=first)
    write(tmp_path / "b", [0, 1, 0], date=DATES[1], config=second)
    table = read_values(tmp_path)
    assert means(table) == pytest.approx(dict(zip(names, (2 / 3, 1 / 3), strict=True))) or means(
        table
    ) == pytest.approx(dict(zip(names, (1 / 3, 2 / 3), strict=True)))


@pytest.mark.parametrize("key", ["device", "batch_size", "gpu_memory_utilization"])
def test_where_a_model_ran_makes_no_row(tmp_path, key):
    for place, value in enumerate("12"):
        config = {"model_args": f"pretrained=org/m,{key}={value}", "batch_size": value}
        write(tmp_path / value, [place, 1, 0], date=DATES[place], config=config)
    table = read_values(tmp_path)
    assert rows(table) == {"org/m": {"quiz/0": 1, "quiz/1": 1, "quiz/2": 0}}
    assert "samples_quiz_2024-06-27" in line(table, "left out: logs of a model and task")


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ({"n-shot": {"quiz": 0}}, {"n-shot": {"quiz": 5}}, ["num_fewshot=0", "num_fewshot=5"]),
        (
            {"config": {"gen_kwargs": "temperature=0.5"}},
            {"config": {"gen_kwargs": {"temperature": 1.0}}},
            ["temperature=0.5", "temperature=1.0"],
        ),
        (
            {"configs": {"quiz": {"doc_to_text": "Q: {{q}}"}}},
            {"configs": {"quiz": {"doc_to_text": "{{q}}"}}},
            ["prompt=#", "prompt=#"],
        ),
        (
            {"n-shot": {"quiz": 0}, "chat_template": "{{a long template of a chat}}"},
            {"n-shot": {"quiz": 0}, "chat_template": None},
            ["chat_template=#", "chat_template=none"],
        ),
    ],
)
def test_logs_of_one_model_and_task_that_differ_in_settings_are_two_rows(
    tmp_path, first, second, names
):
    write(tmp_path / "a", [1, 1, 0], date=DATES[0], **first)
    write(tmp_path / "b", [0, 1, 0], date=DATES[1], **second)
    table = read_values(tmp_path)
    assert sorted(means(table).values()) == pytest.approx([1 / 3, 2 / 3])
    for name, model in zip(names, sorted(table.models), strict=True):
        assert model.startswith(f"org/m [{name}") and model.endswith("]")
    settings = table.model_provenance[0]["tasks"]["quiz"]
    assert settings  # kept for each model and task
    assert not table.left_out


def test_a_row_of_a_variant_has_only_the_tasks_of_its_own_logs(tmp_path):
    for place, shots in enumerate((0, 5)):
        write(tmp_path, [1, place], date=DATES[place], **{"n-shot": {"quiz": shots}})
    write(tmp_path / "sums", [1, 1], "sums", date=DATES[0], **{"n-shot": {"sums": 5}})
    write(tmp_path / "bbh", [0, 0], "bbh", date=DATES[2], **{"n-shot": {"bbh": 3}})
    assert rows(read_values(tmp_path)) == {
        "org/m": {"bbh/0": 0, "bbh/1": 0},  # belongs to neither
        "org/m [num_fewshot=0]": {"quiz/0": 1, "quiz/1": 0},
        "org/m [num_fewshot=5]": {"quiz/0": 1, "quiz/1": 1, "sums/0": 1, "sums/1": 1},
    }


def test_other_models_that_differ_share_columns_and_one_line_says_so(tmp_path):
    write(tmp_path / "a", [1, 0], model="a", **{"n-shot": {"quiz": 0}})
    write(tmp_path / "b", [1, 1], model="b", **{"n-shot": {"quiz": 5}})
    table = read_values(tmp_path)
    assert table.models == ["a", "b"]
    said = line(table, "models that were evaluated in different ways share columns")
    assert "num_fewshot on quiz: 0 (a), 5 (b)" in said


@pytest.mark.parametrize(
    "fragment",
    [
        {"sizes": (4, 2)},
        {"config": {"limit": 2.0}},
        {},  # says nothing, but the other log has all of its samples
    ],
)
@pytest.mark.parametrize("newest", [True, False])
def test_a_complete_log_counts_before_a_fragment(tmp_path, fragment, newest):
    whole = {} if not fragment else {"sizes": (4, 4)}
    write(tmp_path, [1, 1, 0, 0], date=DATES[1], **whole)
    write(tmp_path, [1, 1], date=DATES[2 if newest else 0], **fragment)
    table = read_values(tmp_path)
    assert means(table) == {"org/m": 0.5}
    said = line(table, "left out: logs of a model and task")
    assert f"samples_quiz_{DATES[2 if newest else 0]}.jsonl (2" in said and "org/m on quiz" in said
    assert "--limit=2" in said or "config" not in fragment


def test_of_complete_logs_the_latest_counts_and_of_fragments_too(tmp_path):
    for place in range(3):
        write(tmp_path, [place == 2, 0, 0, 0], date=DATES[place], sizes=(4, 4))
    assert means(read_values(tmp_path)) == {"org/m": 0.25}
    for place in range(3):
        write(tmp_path / "part", [place == 1], date=DATES[place], sizes=(4, 1 + (place == 2)))
    table = read_values(tmp_path / "part")
    assert means(table) == {"org/m": 0}
    said = line(table, "read, although not complete")
    assert f"{DATES[2]}.jsonl (1 of 4 samples, cut short, as its run evaluated 2)" in said


def test_a_log_that_ends_within_a_line_is_a_fragment(tmp_path):
    """The disk was full, or the run was killed."""
    write(tmp_path / "whole", [1, 0, 0, 0], date=DATES[0])
    path = write(tmp_path / "cut", [1, 1, 1, 1], date=DATES[1], sizes=(4, 4))
    path.write_text(path.read_text()[:-20])
    table = read_values(tmp_path)
    assert means(table) == {"org/m": 0.25}
    said = line(table, "left out: logs of a model and task")
    assert f"cut/samples_quiz_{DATES[1]}.jsonl (3 of 4 samples, cut short in line 4)" in said
    table = read_values(tmp_path / "cut")
    assert means(table) == {"org/m": 1} and "cut short in line 4" in line(table, "read, although")


def test_copies_of_a_log_are_called_copies(tmp_path):
    for folder in ("a", "b"):
        write(tmp_path / folder, [1, 0], date=DATES[0])
    said = line(read_values(tmp_path), "left out: copies of logs that are read (1)")
    assert f"b/samples_quiz_{DATES[0]}.jsonl (2 samples) of org/m on quiz" in said
    write(tmp_path / "b", [1, 1], date=DATES[0])
    assert line(read_values(tmp_path), "left out: logs with other values than those of the same")


def test_logs_of_several_models_in_one_folder_belong_to_their_own_results(tmp_path):
    """With --output_path FILE.json results are FILE_DATE.json."""
    for place, model in enumerate("abc"):
        write(tmp_path, [1, place == 1], model=model, date=DATES[place], name=f"run{model}")
    table = read_values(tmp_path)
    assert rows(table)["a"] == {"quiz/0": 1, "quiz/1": 0} and table.models == ["a", "b", "c"]
    assert not table.left_out and not any("folder" in each for each in table.remarks)
    (tmp_path / f"rival_{DATES[0]}.json").write_text('{"model_name": "d"}')
    with pytest.raises(BadInput, match=r"rival_.* are of the same date"):
        read_values(tmp_path)
    (tmp_path / f"rival_{DATES[0]}.json").unlink()
    (tmp_path / f"runb_{DATES[1]}.json").unlink()
    assert "samples_quiz_2024-06-28" in line(read_values(tmp_path), "models named after the folder")


def test_the_order_of_paths_and_files_does_not_matter(tmp_path):
    paths = [
        write(tmp_path / "z", [1, 1, 0], date=DATES[0], **{"n-shot": {"quiz": 0}}),
        write(tmp_path / "a", [1, 0, 0], date=DATES[1], **{"n-shot": {"quiz": 5}}),
        write(tmp_path / "k", [0, 0, 0], model="other", date=DATES[1]),
        write(tmp_path / "k", [0, 1, 0], "sums", model="other", date=DATES[2]),
        write(tmp_path / "b", [0, 1, 0], "sums", metric="f1", model="third", date=DATES[2]),
    ]
    from nevis_stream.evaluation_cache.importers import read_logs

    first, second = read_logs(paths), read_logs(paths[::-1])
    assert first.values.tobytes() == second.values.tobytes()
    for name in ("models", "samples", "model_provenance", "sample_provenance", "remarks"):
        assert getattr(first, name) == getattr(second, name)


def test_a_score_that_the_log_reports_is_compared(tmp_path):
    write(tmp_path / "a", [1, 0, 0, 0], results={"quiz": {"acc,none": 0.2501}}, sizes=(4, 4))
    assert not any("reports" in each for each in read_values(tmp_path / "a").remarks)
    write(tmp_path / "b", [0, 0, 0], results={"quiz": {"acc,none": 0.75}}, sizes=(1319, 100))
    said = line(read_values(tmp_path / "b"), "the log itself reports another score")
    assert "org/m on quiz, acc: 0.7500 of 100 samples, not 0.0000 of 3 samples" in said
    # a difference of less than rounding in a wide range
    write(tmp_path / "c", [70, 20], results={"quiz": {"acc,none": 45.03, "acc_stderr,none": 3}})
    table = read_values(tmp_path / "c", value_range=(0, 100))
    assert not any("reports" in each for each in table.remarks)
    write(tmp_path / "d", [70, 20], results={"quiz": {"acc": 45.1}})
    assert "45.1000, not" in line(
        read_values(tmp_path / "d", value_range=(0, 100)), "the log itself reports another score"
    )


def test_a_model_without_the_metric_is_named(tmp_path):
    for model, metric in (("a", "strict"), ("b", "loose"), ("c", "loose")):
        write(tmp_path / model, [1, 0], model=model, metric=metric)
        write(tmp_path / model, [1, 1], "sums", model=model, date=DATES[2])
    table = read_values(tmp_path)
    assert "a has no loose on quiz (it has strict)" in line(table, "left unknown")
    assert rows(table)["a"] == {"sums/0": 1, "sums/1": 1}
    assert rows(read_values(tmp_path, metrics=["strict"]))["b"] == {"sums/0": 1, "sums/1": 1}


def test_values_that_are_no_numbers_are_counted_or_refused(tmp_path):
    write(tmp_path / "nan", [1, float("nan"), None])
    table = read_values(tmp_path / "nan")
    assert rows(table) == {"org/m": {"quiz/0": 1}}
    assert "2 of org/m on quiz (acc; for example samples_quiz_" in line(
        table, "values that are not numbers, left unknown"
    )
    write(tmp_path / "grades", ["A", "F", 1])
    with pytest.raises(
        BadInput, match=r"The grade 'A' \(samples_.*line 1, of org/m\).*--grades=A=…,F=…"
    ):
        read_values(tmp_path / "grades")


def test_samples_that_are_named_otherwise_are_named(tmp_path):
    write(tmp_path, [1, 0])
    (tmp_path / "samples_quiz_old.jsonl").write_text("{}")
    assert "samples_quiz_old.jsonl" in line(read_values(tmp_path), "left out")


def test_a_sample_with_two_contents_is_refused(tmp_path):
    write(tmp_path / "a", [1, 0], model="a")
    write(tmp_path / "b", [1, 0], model="b", samples={1: "another"})
    with pytest.raises(
        BadInput, match=r"sample 1 of quiz has another content than in .*/a/samples"
    ):
        read_values(tmp_path)


def test_perplexity_of_a_sample_is_a_log_likelihood(tmp_path):
    """The harness states the direction of exp(−mean), but its samples have log-likelihoods."""
    more = {
        "configs": {"quiz": {"metric_list": [{"metric": "perplexity"}]}},
        "higher_is_better": {"quiz": {"perplexity": False}},
        "results": {"quiz": {"perplexity,none": math.exp(2)}},
    }
    path = write(tmp_path / "a", [-1.0, -3.0], metric="perplexity", **more)
    table = read_values(path, value_range="none")
    assert all(each["higher_is_better"] for each in table.sample_provenance)
    assert any("log-likelihood of each sample" in line for line in table.remarks)
    assert not any("reports another score" in line for line in table.remarks)
