"""Names of rows: what distinguishes the variants of a model, in one import and against a cache."""

from dataclasses import replace

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache, identity
from nevis_stream.evaluation_cache.additions import append, merge_additions, read_additions
from nevis_stream.evaluation_cache.exchange import export_npz, import_file, read_for_cache
from nevis_stream.launch.evaluate_commands.fill import _together
from tests.dynamic_evaluation.test_additions import MODEL
from tests.evaluation_cache.harness_logs import write

DATES = [f"2024-06-{day}T00-00-00.00001" for day in (27, 28, 29)]


def shots(folder, number, values, task="quiz", **more):
    """Writes a log with a number of shots."""
    return write(folder, values, task, **{"n-shot": {task: number}}, **more)


def cells(cache):
    """Returns the known values of each row, by sample."""
    return {
        model: {
            sample: value
            for sample, value in zip(cache.samples(), row, strict=True)
            if value != 255
        }
        for model, row in zip(cache.models(), cache.matrix().tolist(), strict=True)
    }


def test_facts_are_distinguished_by_few_names():
    known = [
        {"num_fewshot": "0", "temperature": "1.0", "top_p": "0.9"},
        {"num_fewshot": "5", "temperature": "1.0", "top_p": "0.8"},
        {"num_fewshot": "5", "top_p": "0.8"},
    ]
    assert identity.distinguish([*known, None]) == [
        {"num_fewshot": "0", "temperature": "1.0"},
        {"num_fewshot": "5", "temperature": "1.0"},
        {"num_fewshot": "5", "temperature": "none"},
        {},
    ]
    assert identity.distinguish([known[0], dict(known[0])]) == [{}, {}]
    # a template that one log does not state is unknown, not a default
    assert identity.find_differences({"prompt": "a"}, {"num_fewshot": "0"}) == []
    for stated in ({"peft": "none"}, {"revision": "main"}):  # as what is not stated is shown
        assert identity.find_differences(stated, {}) == []
    assert identity.find_differences({"peft": "x"}, {}) == ["peft"]
    assert identity.name_row("m", {"top_p": "1", "revision": "x"}) == "m [revision=x, top_p=1]"


def test_a_name_that_is_in_a_cache_stays_and_the_newcomer_gets_the_difference(tmp_path):
    cache = tmp_path / "cache"
    import_file(cache, shots(tmp_path / "a", 5, [1, 0]))
    table = import_file(cache, shots(tmp_path / "b", 0, [0, 0], date=DATES[0]))
    assert table.models == ["org/m [num_fewshot=0]"]
    assert any(
        line == "org/m [num_fewshot=0]: differs from org/m in this cache (num_fewshot), so it is"
        " another row"
        for line in table.remarks
    )
    expected = {
        "org/m": {"quiz/0": 1, "quiz/1": 0},
        "org/m [num_fewshot=0]": {"quiz/0": 0, "quiz/1": 0},
    }
    assert cells(EvaluationCache(cache)) == expected
    # the same again, and another task of each
    import_file(cache, [tmp_path / "b", tmp_path / "a"])
    import_file(cache, shots(tmp_path / "c", 0, [1], "sums"))
    assert cells(EvaluationCache(cache)) == {
        "org/m": {"quiz/0": 1, "quiz/1": 0},
        "org/m [num_fewshot=0]": {"quiz/0": 0, "quiz/1": 0, "sums/0": 1},
    } or cells(EvaluationCache(cache))["org/m"] == {"quiz/0": 1, "quiz/1": 0, "sums/0": 1}
    facts = EvaluationCache(cache).models()["org/m"]
    assert facts["model"] == "org/m" and facts["tasks"]["quiz"]["num_fewshot"] == "5"


def test_variants_of_one_import_join_the_rows_that_a_cache_has(tmp_path):
    cache = tmp_path / "cache"
    first = [shots(tmp_path / "a", 0, [1, 0]), shots(tmp_path / "a", 3, [1], "bbh", date=DATES[0])]
    import_file(cache, first)
    import_file(cache, [*first, shots(tmp_path / "b", 5, [0, 0])])
    assert cells(EvaluationCache(cache)) == {
        "org/m": {"quiz/0": 1, "quiz/1": 0, "bbh/0": 1},
        "org/m [num_fewshot=5]": {"quiz/0": 0, "quiz/1": 0},
    }


@pytest.mark.parametrize("facts", [{}, {"config": {"model_args": "revision=b"}}])
def test_other_revisions_are_other_rows_and_unknown_ones_match_any(tmp_path, facts):
    cache = tmp_path / "cache"
    import_file(cache, write(tmp_path / "a", [1], config={"model_args": "revision=a"}))
    import_file(cache, write(tmp_path / "b", [1, 0], **facts))
    names = ["org/m", "org/m [revision=b]"] if facts else ["org/m"]
    assert list(EvaluationCache(cache).models()) == names


def test_a_merge_and_an_export_keep_rows_apart(tmp_path):
    import_file(tmp_path / "one", shots(tmp_path / "a", 5, [1, 0]))
    import_file(tmp_path / "two", shots(tmp_path / "b", 0, [0, 0]))
    one, two = (EvaluationCache(tmp_path / name) for name in ("one", "two"))
    for folder, model in (("one", "org/new"), ("two", "org/m")):
        append(tmp_path / folder, replace(MODEL, name=model))
    lines, names = one.merge(two)
    assert list(one.models()) == ["org/m", "org/m [num_fewshot=0]"] and "num_fewshot" in lines[0]
    for _ in range(2):
        merge_additions(tmp_path / "one", tmp_path / "two", names)
        accounts = [each.name for each in read_additions(tmp_path / "one")]
        assert accounts == ["org/new", "org/m [num_fewshot=0]"]
        names = one.merge(two).names
    assert len(one.models()) == 2
    export_npz(two, tmp_path / "two.npz")
    import_file(one, tmp_path / "two.npz")
    assert list(one.models()) == ["org/m", "org/m [num_fewshot=0]"]


def test_a_model_that_is_added_is_the_row_that_it_is(tmp_path):
    import_file(tmp_path / "one", shots(tmp_path / "a", 5, [1, 0]))
    cache = EvaluationCache(tmp_path / "one")
    table = read_for_cache(cache, shots(tmp_path / "b", 0, [0, 0]))
    assert table.models == ["org/m [num_fewshot=0]"]
    with pytest.raises(BadInput, match="sample 'quiz/1'.* has the content .* in this cache"):
        read_for_cache(cache, shots(tmp_path / "c", 5, [1, 0], samples={1: "another"}))


def test_questions_metrics_and_directions_of_a_second_import_are_compared(tmp_path):
    import_file(
        tmp_path / "one", write(tmp_path / "a", [1, 0], higher_is_better={"quiz": {"acc": True}})
    )
    cache = EvaluationCache(tmp_path / "one")
    for place, (more, said) in enumerate(
        [
            ({"samples": {1: "another"}}, "content content1 in this cache, not another"),
            ({"metric": "f1"}, "metric acc in this cache, not f1"),
            ({"higher_is_better": {"quiz": {"acc": False}}}, "direction higher is better in this"),
        ]
    ):
        path = write(tmp_path / f"b{place}", [1, 1], model="other", **more)
        with pytest.raises(BadInput, match=said):
            import_file(cache, path)
    assert cache.shape == (1, 2)


def test_all_logs_of_a_command_are_one_import(tmp_path):
    logs = [shots(tmp_path / "b", 0, [1]), shots(tmp_path / "a", 5, [0])]
    csv = tmp_path / "board.csv"
    assert _together([csv, *logs], []) == [csv, tuple(logs)]
    for order in (logs, logs[::-1]):
        cache = tmp_path / f"cache{order is logs}"
        (together,) = _together(order, [])
        import_file(cache, together)
        assert list(EvaluationCache(cache).models()) == [
            "org/m [num_fewshot=0]",
            "org/m [num_fewshot=5]",
        ]
    one, two = (EvaluationCache(tmp_path / f"cache{each}") for each in (True, False))
    assert one.models() == two.models() and one.samples() == two.samples()
