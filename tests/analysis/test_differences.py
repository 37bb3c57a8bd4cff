"""Two methods compared: numbers by hand, what is left out, and the sentence that says it."""

import math

import pytest
from scipy import stats

from nevis_stream.analysis.bootstrap import Interval
from nevis_stream.analysis.differences import compare_groups, make_table
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.analysis.verdict import (
    abbreviate_verdict,
    estimate_seeds_needed,
    format_span,
    list_cautions,
    state_costs,
    state_verdict,
)
from nevis_stream.errors import BadInput
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(tasks=8, meta_test=6, thumbnails=False)
TASKS = [RUN.task_id(order) for order in range(3, 9)]


def run(learner, errors, seed=0, **changes):
    return RUN.but(
        learner=learner, seed=seed, errors=tuple(zip(TASKS, errors, strict=True)), **changes
    )


def groups(tmp_path, *runs):
    read, left_out = read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])
    assert not left_out
    return group_by_seed(read)


def seeds(learner, shift, noise, n=3, **changes):
    bases = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    return [
        run(
            learner,
            [base + shift * (1 + i / 10) + noise * (s - 1) for i, base in enumerate(bases)],
            s,
            **changes,
        )
        for s in range(n)
    ]


def test_differences_by_hand(tmp_path):
    a, b = groups(tmp_path, *seeds("a", -0.1, 0.01), *seeds("b", 0, 0.02))
    result = compare_groups(a, b)
    assert [task.task_id for task in result.tasks] == TASKS
    first = result.tasks[0]
    assert (first.a, first.b, first.n) == (pytest.approx(0.1), pytest.approx(0.2), 53)
    reference = stats.ttest_ind(
        [0.09, 0.1, 0.11], [0.18, 0.2, 0.22], equal_var=False
    ).confidence_interval(0.95)
    assert (first.difference.low, first.difference.high) == pytest.approx(tuple(reference))
    assert (result.over_seeds.estimate, result.over_tasks.estimate) == pytest.approx(
        (-0.125, -0.125)
    )
    assert result.over_tasks.seeds == (3, 3)
    assert (result.paper.ratio, result.full.equal, result.remarks) == (1, True, ())


def test_table_begins_with_the_largest_gain_and_ends_with_all_tasks(tmp_path):
    frame = make_table(
        compare_groups(*groups(tmp_path, *seeds("a", -0.1, 0.01), *seeds("b", 0, 0.02)))
    )
    assert frame["task_id"].tolist() == [*reversed(TASKS), ""]
    assert frame["difference"].iloc[-1] == pytest.approx(frame["difference"].iloc[:-1].mean())
    assert frame["tasks_low"].notna().tolist() == [False] * 6 + [True]
    assert set(frame["label_a"]) == {"a · small"}


@pytest.mark.parametrize(
    ("shift", "noise", "n", "words"),
    [
        (
            -0.1,
            0.01,
            3,
            (
                "a · small is better than b · small: on average over 6 tasks its error is 12.50"
                " percentage points lower, more than the variation between seeds explains"
            ),
        ),
        (0.1, 0.01, 3, "a · small is worse than b · small"),
        (-0.01, 0.05, 3, "3 seeds of each cannot tell"),
        (
            -0.1,
            0,
            1,
            (
                "is better than b · small: on average over 6 tasks its error is 12.50 percentage"
                " points lower, judging from one seed"
            ),
        ),
        (0, 0, 1, "have the same error on each of 6 tasks"),
        (-0.1, 0, 3, "all seeds agree exactly"),
    ],
)
def test_the_sentence(tmp_path, shift, noise, n, words):
    assert words in state_verdict(
        compare_groups(*groups(tmp_path, *seeds("a", shift, noise, n), *seeds("b", 0, noise, n)))
    )


def test_one_task_of_many_that_decides_may_turn_around_elsewhere(tmp_path):
    better = [run("a", [0.2, 0.2, 0.2, 0.2, 0.2, 0.01 + s / 1000], s) for s in range(3)]
    worse = [run("b", [0.19, 0.19, 0.19, 0.19, 0.19, 0.5 + s / 1000], s) for s in range(3)]
    message = state_verdict(compare_groups(*groups(tmp_path, *better, *worse)))
    assert "more than the variation between seeds" in message and "may be the opposite" in message


def test_one_seed_and_a_mean_that_chance_explains(tmp_path):
    a, b = run("a", [0.2, 0.4, 0.2, 0.4, 0.2, 0.4]), run("b", [0.3] * 6)
    result = compare_groups(*groups(tmp_path, a, b.but(errors=(*b.errors[:5], (TASKS[5], 0.31)))))
    assert "One seed cannot tell" in state_verdict(result)
    few = compare_groups(
        *groups(
            tmp_path / "few", run("a", [0.2] * 6, meta_test=3), run("b", [0.1] * 6, meta_test=3)
        )
    )
    assert "cannot show whether that is chance" in state_verdict(few)


def test_the_method_with_a_single_seed_is_named(tmp_path):
    several, single = seeds("a", -0.1, 0.01), run("b", [0.2] * 6, meta_test=3)
    few = [each.but(meta_test=3) for each in several]
    message = state_verdict(compare_groups(*groups(tmp_path, *few, single)))
    assert "one seed of b · small" in message
    assert "b · small needs two or more seeds; the other method has 3." in message


def test_what_the_interval_over_tasks_cannot_know_is_said(tmp_path):
    several, first = seeds("a", -0.1, 0.01), run("b", [0.3] * 6)
    seed, few = list_cautions(compare_groups(*groups(tmp_path / "one", *several, first)))
    assert (
        "With one seed" in seed
        and "a single run does not show noise" in seed
        and "fewer than 20 tasks" in few
    )
    assert list_cautions(
        compare_groups(*groups(tmp_path / "two", *several, *seeds("b", 0, 0.02, 2)))
    ) == [few]
    long = RUN.but(tasks=22, meta_test=20)
    runs = (long.but(learner=n, seed=s) for n in "ab" for s in range(2))
    (shorter,) = list_cautions(compare_groups(*groups(tmp_path / "long", *runs)))
    assert "is the shorter one, because it sees the noise in the differences of 20" in shorter
    none = groups(
        tmp_path / "none", run("a", [0.1] * 6, meta_test=3), run("b", [0.2] * 6, meta_test=3)
    )
    assert list_cautions(compare_groups(*none)) == []


def test_equal_and_unequal_costs_are_said(tmp_path):
    cheap, dear = groups(
        tmp_path, *seeds("a", 0, 0.01, flops=1000), *seeds("b", 0, 0.01, flops=2500)
    )
    assert state_costs(compare_groups(cheap, cheap)) == "The comparison is at equal FLOPs."
    message = state_costs(compare_groups(cheap, dear))
    assert "not at equal FLOPs: a · small used 1/2.5 of the training FLOPs of b · small." in message
    message = state_costs(compare_groups(dear, cheap))
    assert "b · small used 2.5 times the training FLOPs of a · small." in message
    (free,) = groups(tmp_path / "free", *seeds("c", 0, 0.01, flops=0))
    for pair in ((cheap, free), (free, cheap)):
        assert "c · small used no training FLOPs." in state_costs(compare_groups(*pair))


def test_unfinished_seeds_are_left_out_or_compared_as_far_as_they_came(tmp_path):
    a, b, part = groups(
        tmp_path,
        *seeds("a", -0.1, 0.01),
        run("a", [0.1] * 6, 7, events=9),
        run("b", [0.3] * 6),
        run("c", [0.2] * 6, events=14),
    )
    result = compare_groups(a, b)
    assert result.over_tasks.seeds == (3, 1)
    assert len(result.remarks) == 1 and "9 of 16 events done; left out" in result.remarks[0]
    result = compare_groups(part, b)
    assert len(result.tasks) == 5
    assert math.isnan(result.paper.ratio) and "unknown" in state_costs(result)
    assert any("not the mean error of the stream" in remark for remark in result.remarks)
    assert any("1 of 6 tasks" in remark for remark in result.remarks)


def test_undefined_errors_leave_their_task_out_and_all_tasks_can_be_asked_for(tmp_path):
    a, b = groups(tmp_path, run("a", [0.1, None, 0.1, 0.1, 0.1, 0.1]), run("b", [0.2] * 6))
    result = compare_groups(a, b)
    assert [task.task_id for task in result.tasks] == [TASKS[0], *TASKS[2:]]
    assert "no positive" in result.remarks[0]
    assert len(compare_groups(a, b, judged_only=False).tasks) == 7


def test_streams_and_protocols_are_not_mixed(tmp_path):
    ours, other, early = groups(
        tmp_path,
        run("a", [0.1] * 6),
        run("b", [0.2] * 6, digest="f" * 16),
        run("c", [0.2] * 6, protocol="meta_train"),
    )
    with pytest.raises(BadInput, match="different streams.*--across_streams"):
        compare_groups(ours, other)
    result = compare_groups(ours, other, across_streams=True)
    assert len(result.tasks) == 6 and "learner and stream together" in result.remarks[0]
    with pytest.raises(BadInput, match="different protocols"):
        compare_groups(ours, early, across_streams=True)


def test_tasks_of_one_name_with_other_data_are_not_joined(tmp_path):
    """As after labels were corrected, and one learner was run again."""
    methods = run("a", [0.1] * 6), run("b", [0.2] * 6, digest="f" * 16)
    paths = [each.write(tmp_path / str(place)) for place, each in enumerate(methods)]
    data = [dict.fromkeys(TASKS, "1" * 64), dict.fromkeys(TASKS, "1" * 64)]

    def compare():
        for path, of_run in zip(paths, data, strict=True):
            rows = [f"{task},{fingerprint}" for task, fingerprint in of_run.items()]
            (path / "stream.csv").write_text("\n".join(["task_id,fingerprint", *rows]))
        return compare_groups(*group_by_seed(read_runs(paths)[0]), across_streams=True)

    assert [each.task_id for each in compare().tasks] == TASKS
    data[1][TASKS[2]] = "2" * 64
    del data[1][TASKS[4]]  # an earlier version stated none
    result = compare()
    assert [each.task_id for each in result.tasks] == [*TASKS[:2], *TASKS[3:]]
    said = "other data under the same name (fingerprints 11111111 and 22222222)"
    assert f"{TASKS[2]}: {said}" in str(result)
    assert "1 task: whether the data are the same is not known" in str(result)
    data[1] = dict.fromkeys(TASKS, "2" * 64)
    with pytest.raises(BadInput, match=f"no task to compare: {TASKS[0]}: other data under the"):
        compare()


def test_intervals_of_few_tasks_stay_within_what_is_possible(tmp_path):
    errors = [None, None, 0.96, 0.95, 0.58, 0.99], [None, None, 0.03, 0.06, 0.38, 0.04]
    result = compare_groups(*groups(tmp_path, run("a", errors[0]), run("b", errors[1])))
    assert (result.over_tasks.tasks, result.over_tasks.side, result.over_tasks.high) == (4, 1, 1.0)


def test_no_common_task_is_an_error(tmp_path):
    a, b = groups(
        tmp_path,
        run("a", [0.1] * 6),
        RUN.but(learner="b", digest="e" * 16, task_name="other_{:03d}"),
    )
    with pytest.raises(BadInput, match="no task to compare.*12 of 12 tasks"):
        compare_groups(a, b, across_streams=True)


def test_a_run_that_has_come_to_no_judged_task_is_named(tmp_path):
    a, part = groups(tmp_path, run("a", [0.1] * 6), run("b", [0.2] * 6, events=3))
    with pytest.raises(
        BadInput,
        match="no task to compare: .*1: unfinished: 2 of 8 tasks trained, 3 of 16 .* 6 of 6 tasks",
    ):
        compare_groups(a, part)


def test_spans_are_in_points_with_signs(tmp_path):
    result = compare_groups(*groups(tmp_path, *seeds("a", -0.1, 0.01), *seeds("b", 0, 0.02)))
    assert format_span(result.over_seeds).startswith("−") and " to −" in format_span(
        result.over_seeds
    )
    first = compare_groups(*groups(tmp_path / "one", run("a", [0.1] * 6), run("b", [0.2] * 6)))
    assert format_span(first.over_seeds).startswith("none: one seed")


def test_two_seeds_that_cannot_tell_say_how_many_would(tmp_path):
    """Welch's t with two seeds of each is wide even where the runs do not overlap."""
    runs = [
        run(learner, [base + noise for base in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)], seed)
        for learner, noises in (("a", (0.0, 0.01)), ("b", (0.02, 0.035)))
        for seed, noise in enumerate(noises)
    ]
    result = compare_groups(*groups(tmp_path, *runs))
    needed = estimate_seeds_needed(result.over_seeds)
    assert 2 < needed < 10
    assert state_verdict(result).startswith(
        f"2 seeds of each cannot tell which of a · small and b · small is better; about {needed} of"
        " each could, if the true difference is this large."
    )
    assert "within seed noise" not in state_verdict(result)
    assert abbreviate_verdict(result) == "seeds cannot tell"


def test_the_number_of_seeds_is_that_of_welchs_t(tmp_path):
    """Seeds 0.5, 0.5 against 0.3, 0.4: with variances that keep their ratio, four of each exclude
    zero.
    """
    runs = [
        run(learner, [error] * 6, seed)
        for learner, errors in (("a", (0.5, 0.5)), ("b", (0.3, 0.4)))
        for seed, error in enumerate(errors)
    ]
    assert estimate_seeds_needed(compare_groups(*groups(tmp_path, *runs)).over_seeds) == 4


def test_equal_means_of_other_tasks_are_no_difference(tmp_path):
    result = compare_groups(
        *groups(tmp_path, run("a", [0.25, 0.75] * 3), run("b", [0.75, 0.25] * 3))
    )
    assert state_verdict(result).endswith(
        "have the same mean error over 6 tasks; on single tasks they differ."
    )


def test_a_difference_of_next_to_nothing_takes_too_many_seeds():
    assert (
        estimate_seeds_needed(Interval(1e-6, -0.5, 0.5, 6, (2, 2), variances=(0.01, 0.01))) is None
    )
