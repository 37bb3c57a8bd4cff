"""Logs of inspect_ai, written by its package: reducers, grades, status, contents, variants."""

import importlib.util
import math

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.files import read_values
from tests.evaluation_cache.test_log_rows import line, means, rows

# its package takes seconds to import, so each test imports it
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("inspect_ai") is None, reason="the extra `logs` is not installed"
)


def grader():
    from inspect_ai.scorer import Score, accuracy, scorer

    @scorer(metrics=[accuracy()])
    def grade():
        async def score(state, target):
            values = state.metadata["values"]
            if values[state.epoch - 1] == "boom":
                raise ValueError("boom")
            return Score(value=values[state.epoch - 1])

        return score

    return grade()


def evaluate(folder, values, *, model="a", inputs=None, config=None, tokens=(0,), **options):
    """Writes a log, in which sample i has the scores values[i], one for each epoch."""
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model

    epochs = options.pop("epochs", None)
    inputs = inputs or [f"q{k}" for k in range(len(values))]
    samples = [
        Sample(
            input=text, target="x", metadata={"values": each if isinstance(each, list) else [each]}
        )
        for text, each in zip(inputs, values, strict=True)
    ]
    outputs = [ModelOutput.from_content("mockllm/model", "yes") for _ in range(len(samples) * 3)]
    for k, output in enumerate(outputs):  # else it counts tokens with a table from the network
        output.usage = ModelUsage(total_tokens=tokens[k % len(tokens)])
    task = inspect_ai.Task(
        samples, scorer=grader(), name="quiz", epochs=epochs and inspect_ai.Epochs(*epochs)
    )
    mock = get_model(
        f"mockllm/{model}",
        custom_outputs=outputs,
        config=GenerateConfig(**(config or {})),
        memoize=False,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (log,) = inspect_ai.eval(task, model=mock, log_dir=str(folder), display="none", **options)
    return log


def test_prices_are_the_mean_of_the_tokens_and_seconds_of_the_models(tmp_path):
    for model, tokens in (("a", [10, 30, 20]), ("b", [20, 40, 60])):
        evaluate(tmp_path / model, [1, 0, 1], model=model, tokens=tokens, max_samples=1)
    prices = read_values(tmp_path).prices
    assert prices["tokens"].tolist() == [15, 35, 40] and (prices["seconds"] > 0).all()


def test_a_log_without_a_value_says_that_its_samples_ended_in_errors(tmp_path):
    evaluate(tmp_path, ["boom", "boom"], fail_on_error=False)
    with pytest.raises(BadInput, match="samples that ended in an error: 2 of .*boom"):
        read_values(tmp_path)


@pytest.mark.parametrize("reducer", ["max", "mode"])
def test_the_reducer_of_the_log_is_used(tmp_path, reducer):
    values = [[1, 0, 0], [0, 0, 0], [1, 1, 0]]
    evaluate(tmp_path, values, epochs=(3, reducer))
    table = read_values(tmp_path)
    assert means(table)["mockllm/a"] == pytest.approx({"max": 2 / 3, "mode": 1 / 3}[reducer])
    assert table.sample_provenance[0]["metric"] == f"grade,{reducer}"
    assert not any("reports" in each for each in table.remarks)


def test_an_epoch_without_a_number_does_not_erase_a_sample(tmp_path):
    evaluate(tmp_path, [[1, 0, math.nan], [0, 0, 1]], epochs=(3, ["mean", "max"]))
    table = read_values(tmp_path)
    assert rows(table)["mockllm/a"] == pytest.approx({"quiz/1": 0.5, "quiz/2": 1 / 3})
    assert "1 of " in line(table, "samples without a number in some epochs")


def test_a_cancelled_log_or_a_part_does_not_replace_a_complete_one(tmp_path):
    from inspect_ai.log import write_eval_log

    evaluate(tmp_path, [1, 1, 0, 0])
    evaluate(tmp_path, [1, 1, 1, 1], limit=2)
    part = evaluate(tmp_path, [1, 1])
    part.status, part.results, part.reductions = "cancelled", None, None
    part.eval.created = "2050-01-01T00:00:00+00:00"
    write_eval_log(part, part.location)
    table = read_values(tmp_path)
    assert means(table) == {"mockllm/a": 0.5}
    (left_out,) = table.left_out
    assert left_out.count == 2 and "(2 samples, cancelled)" in left_out.example
    assert "(2 of 4 samples, --limit=2)" in left_out.example


def test_samples_that_failed_stay_unknown_and_are_counted(tmp_path):
    evaluate(tmp_path, [1, "boom", 0], fail_on_error=False)
    table = read_values(tmp_path)
    assert rows(table) == {"mockllm/a": {"quiz/1": 1, "quiz/3": 0}}
    assert "for example 2: ValueError('boom')" in line(table, "samples that ended in an error")


def test_grades_that_are_no_numbers_are_refused_or_mapped(tmp_path):
    evaluate(tmp_path, ["A", "B", "F", "A"])
    with pytest.raises(
        BadInput, match=r"The grade 'A' \(.*sample 1, of mockllm/a\).*--grades=A=…,B="
    ):
        read_values(tmp_path)
    table = read_values(tmp_path, grades={"A": 1, "B": 0.75, "F": 0})
    assert means(table) == {"mockllm/a": 0.6875}
    # the log itself took every letter for 0
    assert "0.0000 of 4 samples, not 0.6875" in line(table, "the log itself reports another score")
    evaluate(tmp_path / "known", ["C", "I", "P", "N"])
    assert means(read_values(tmp_path / "known")) == {"mockllm/a": 0.375}


def test_samples_of_equal_number_and_other_content_are_refused(tmp_path):
    evaluate(tmp_path, [1, 0], model="a", inputs=["w", "z"])
    evaluate(tmp_path, [1, 0], model="b", inputs=["z", "w"])
    with pytest.raises(BadInput, match="sample 1 of quiz has another content than in"):
        read_values(tmp_path)


def test_effort_makes_another_model_and_temperature_another_row(tmp_path):
    for effort, temperature in (("low", 0.5), ("high", 0.5), ("high", 1.0)):
        config = {"reasoning_effort": effort, "temperature": temperature}
        evaluate(tmp_path, [1, 0], config=config)
    assert sorted(read_values(tmp_path).models) == [
        "mockllm/a [reasoning_effort=high, temperature=0.5]",
        "mockllm/a [reasoning_effort=high, temperature=1.0]",
        "mockllm/a [reasoning_effort=low]",
    ]


def test_messages_have_the_same_content_in_each_log(tmp_path):
    """Their ids are drawn at random."""
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ChatMessageUser

    for model in "ab":
        inputs = [[ChatMessageUser(content="w")], [ChatMessageUser(content="z" * 500)]]
        log = evaluate(tmp_path, [1, 0], model=model, inputs=inputs)
        assert read_eval_log(log.location).samples[0].input[0].id
    assert read_values(tmp_path).models == ["mockllm/a", "mockllm/b"]
