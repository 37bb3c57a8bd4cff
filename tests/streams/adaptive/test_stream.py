"""Adaptive streams: what they draw, rules, labels, kills, and the report."""

import random
import shutil
import sys

import numpy as np
import pytest

from nevis_stream import run
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.launch.evaluate_commands.fill import import_run
from nevis_stream.report.build import write_report
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.streams.adaptive import rules
from nevis_stream.streams.adaptive.rules import PoolState, draw
from nevis_stream.streams.adaptive.specification import Specification, read_specification
from nevis_stream.streams.adaptive.stream import list_sources, load_adaptive
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import replay
from nevis_stream.vocabulary import SPLITS
from tests import forked, toy
from tests.report.page_reader import Page
from tests.test_kill import KILLED, command, results

pytestmark = pytest.mark.usefixtures("embedded_once")
NAME = "adaptive:pico_digits+pico_coins,rounds=3,samples=15,candidates=200"


def ncm():
    from nevis_stream.learners.nearest_class_mean import NearestClassMean

    return NearestClassMean()


def finished(folder, name=NAME, seed=0, learner="nearest_class_mean"):
    stream = load_stream(name)
    config = {"learner": learner}
    ledger = run(ncm(), stream, folder, seed=seed, config=config, tensorboard=False)
    return stream, ledger


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("whole") / "run")


def trained(stream, ledger):
    events = [event for _, _, event in replay(stream, ledger) if event.split is None]
    return {event.task.task_id: event for event in events}


def ids(stream, ledger, task_id, split):
    return set(stream.splits_of(trained(stream, ledger)[task_id])[split].ids)


def test_each_round_adds_what_the_learner_was_wrong_on(whole):
    stream, ledger = whole
    train = [ids(stream, ledger, f"pico_digits.round{n}", "train") for n in (1, 2, 3)]
    assert [len(each) for each in train] == [15, 30, 45]
    assert train[0] < train[1] < train[2]
    pool = {r.task_id: r for r in ledger.of_kind(PredictRecord) if r.split == "pool"}
    assert set(pool) == {f"pico_{n}.round{r}" for n in ("digits", "coins") for r in (1, 2)}
    for number in (1, 2):
        answers = ledger.outcomes(pool[f"pico_digits.round{number}"])
        wrong = {i for i, c in zip(answers["sample_id"], answers["correct"], strict=True) if not c}
        added = train[number] - train[number - 1]
        assert added <= wrong and len(wrong - train[number - 1]) >= 15
        assert set(answers["sample_id"]) == ids(stream, ledger, "pico_digits.round1", "pool")


def test_the_target_is_untouched_and_the_last_round_is_judged(whole):
    stream, ledger = whole
    plain = load_stream("pico")
    row = next(task for task in plain.tasks if task.dataset_id == "pico_digits")
    for split in ("dev", "dev_test", "test"):
        expected = set(plain.splits(row)[split].ids)
        assert ids(stream, ledger, "pico_digits.round3", split) == expected
        assert not expected & ids(stream, ledger, "pico_digits.round3", "pool")
    judged = {r.task_id: r.meta_split for r in ledger.of_kind(TrainRecord)}
    assert judged["pico_coins.round2"] == "train" and judged["pico_coins.round3"] == "test"
    assert [r.task_id for r in ledger.of_kind(TrainRecord)][:3] == [
        "pico_digits.round1",
        "pico_coins.round1",
        "pico_digits.round2",
    ]


def test_labels_are_charged(whole, tmp_path):
    _, ledger = whole
    records = ledger.of_kind(TrainRecord)
    assert [r.labels for r in records] == [30, 30, 60, 60, 90, 90]
    assert [r.labels_seen for r in records] == [30, 30, 400, 400, 400, 400]
    _, control = finished(tmp_path, f"{NAME},rule=random")
    assert [r.labels_seen for r in control.of_kind(TrainRecord)] == [30, 30, 60, 60, 90, 90]
    plain = run(toy.ToyLearner(), toy.stream(), tmp_path / "plain", tensorboard=False)
    assert all(r.labels is None for r in plain.of_kind(TrainRecord))
    assert "labels" not in (tmp_path / "plain" / "ledger.jsonl").read_text()


def test_sources_of_a_hierarchy():
    path = Specification("x", rounds=4)
    deep = Specification("x", rounds=6, design="hierarchical", width=3)
    assert list_sources(path, 3) == [(0,), (1,), (2,)]
    assert list_sources(deep, 2) == [(0,), (1,)]
    assert list_sources(deep, 3) == [(0, 1, 2)]
    assert list_sources(deep, 5) == [(0, 1, 2), (3,), (4,)]


def test_a_hierarchy_starts_each_block_anew(tmp_path):
    name = "adaptive:pico_digits,rounds=4,samples=10,candidates=200,design=hierarchical,width=2"
    stream, ledger = finished(tmp_path, name)
    train = [ids(stream, ledger, f"pico_digits.round{n}", "train") for n in (1, 2, 3, 4)]
    assert [len(each) for each in train] == [10, 20, 20, 30]
    assert train[0] < train[2] and not train[1] <= train[2] and train[2] < train[3]
    assert not train[2] & (train[1] - train[0])  # what was drawn is not drawn again
    # what the vote of rounds 1 and 2 erred on: half of two models is enough
    wrong = set()
    for record in ledger.of_kind(PredictRecord)[:4]:
        if record.split == "pool":
            answers = ledger.outcomes(record)
            wrong |= set(answers["sample_id"][answers["correct"] == 0])
    assert train[2] - train[0] <= wrong
    assert ledger.of_kind(TrainRecord)[2].labels == len(train[0] | train[1] | train[2])


def test_across_data_sets_the_rule_divides_the_labels(tmp_path):
    stream, ledger = finished(tmp_path, f"{NAME},across=true")
    sizes = [
        [len(ids(stream, ledger, f"{name}.round{n}", "train")) for n in (1, 2, 3)]
        for name in ("pico_digits", "pico_coins")
    ]
    assert np.sum(sizes, axis=0).tolist() == [30, 60, 90]
    assert sizes[0][2] < sizes[1][2]  # coins are harder


def test_seeds_draw_differently_and_repetitions_do_not(whole, tmp_path):
    stream, ledger = whole
    again = finished(tmp_path / "again")[1]
    assert again.path.read_bytes() == ledger.path.read_bytes()
    other, other_ledger = finished(tmp_path / "other", seed=1)
    assert other.digest == stream.digest
    task = "pico_digits.round1"
    assert ids(other, other_ledger, task, "pool") != ids(stream, ledger, task, "pool")


def test_a_stream_is_the_same_before_and_after_a_run(whole):
    stream, ledger = whole
    row = stream.tasks[0]
    before = load_stream(NAME)
    assert before.splits(row).keys() == stream.splits(row).keys() == set(SPLITS)
    assert list(before.splits(row)["train"].ids) == list(stream.splits(row)["train"].ids)
    assert vars(before).keys() == vars(load_stream("pico")).keys()


def test_one_stream_serves_several_runs(tmp_path):
    stream = load_stream(NAME)
    ledgers = [
        run(ncm(), stream, tmp_path / str(seed), seed=seed, config={"learner": "x"})
        for seed in (0, 1, 0)
        if not (tmp_path / str(seed)).exists()
    ]
    alone = finished(tmp_path / "alone", seed=1, learner="x")[1]
    assert alone.path.read_bytes() == ledgers[1].path.read_bytes()


def test_the_digest_covers_pool_and_rule():
    words = ("", ",rule=random", ",rounds=5", ",across=true")
    names = [NAME.replace(",rounds=3", "") + word for word in words]
    names += [f"{NAME},design=hierarchical", NAME.replace("15", "16"), NAME.replace("200", "201")]
    digests = [load_stream(name).digest for name in names]
    assert len(set(digests)) == len(digests)


def test_a_pool_may_be_a_stream():
    stream = load_adaptive("adaptive:pico,samples=10")
    names = [task.dataset_id for task in stream.tasks]
    assert len(names) == len(set(names)) == len({t.dataset_id for t in load_stream("pico").tasks})
    assert stream.length("meta_test") == (None, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adaptive:", "the pool is missing"),
        ("adaptive:pico_digit", "'pico_digit'.*'pico_digits'"),
        ("adaptive:pico_digits,rouds=3", "'rouds'.*'rounds'"),
        ("adaptive:pico_digits,rounds=1", "rounds=1"),
        ("adaptive:pico_digits,across=yes", "across=yes; valid: true, false"),
        ("adaptive:pico_digits,design=tree", "'tree'.*hierarchical, path"),
        ("adaptive:pico_digits,rule=randm", "'randm'.*'random'"),
        ("adaptive:pico_digits,rule=os:path", "lacks 'about'"),
        ("adaptive:pico_digits,rule=nowhere:X", "cannot be imported"),
        (
            "adaptive:pico_digits,candidates=90,samples=30",
            "it has 90 candidates, and rounds=4 of samples=30 need 120. At most samples=22 or"
            " rounds=3 is possible",
        ),
        ("adaptive:pico_digits,rounds=3,rounds=4", "rounds occurs twice"),
        ("adaptive:pico_digits,width=2", "width needs design=hierarchical"),
        ("adaptive:pico_digits,design=hierarchical", "whole blocks of width=3. Use rounds=6, or"),
        ("adaptive:pico_digits,rule=random,cache=x", "rule 'random' needs no cache"),
        ("adaptive:pico_digits,rule=hardest", "rule 'hardest' needs a folder of caches"),
        ("adaptive:pico_digits,rule=hardest,cache=no", "no/pico_digits: no evaluation cache there"),
        ("adaptive:pico_digits,rule=:X", "cannot be imported .ValueError"),
    ],
)
def test_names_that_mean_nothing(name, message):
    with pytest.raises(BadInput, match=message):
        load_stream(name)


def test_a_protocol_without_a_last_round(tmp_path):
    with pytest.raises(BadInput, match="has 'meta_test' only"):
        run(ncm(), NAME, tmp_path, protocol="meta_train", config={"learner": "x"})


def test_names_are_short_and_read_back():
    name = NAME.replace("rounds=3", "rounds=4")
    specification = read_specification(f"{name},rule=random,across=true")
    assert specification.name.endswith("coins,rule=random,samples=15,candidates=200,across=true")
    assert read_specification(specification.name) == specification


RULES = """
import numpy as np

class Base:
    about = "for a test"
    sees_labels = False

class Raises(Base):
    def weights(self, candidates):
        return 1 / 0

class Nothing(Base):
    def weights(self, candidates):
        return np.zeros(len(candidates))

class Same(Base):
    def weights(self, candidates):
        return np.arange(len(candidates)) == 40

class Negative(Base):
    def weights(self, candidates):
        return np.full(len(candidates), -1)

class Short(Base):
    def weights(self, candidates):
        return [1, 2]

class Exits(Base):
    def weights(self, candidates):
        raise SystemExit

class Writes(Base):
    def weights(self, candidates):
        candidates.collected[:] = False

class Counts(Base):
    rounds = {}
    def weights(self, candidates):
        self.rounds[len(self.rounds)] = 1
        return np.ones(len(candidates))

class Reads(Base):  # labels, without a word
    def weights(self, candidates):
        return candidates.wrong[-1]

class Different(Base):
    def weights(self, candidates):
        return np.random.rand(len(candidates))

class Demanding(Base):
    def __init__(self, what):
        self.what = what

class First(Base):
    def weights(self, candidates):
        return np.arange(len(candidates)) < 45

SEED = 0

class OfTheProcess(Base):
    def weights(self, candidates):
        return np.random.default_rng(SEED).random(len(candidates))
"""


@pytest.fixture
def own_rules(tmp_path, monkeypatch):
    (tmp_path / "my_rules_of_a_test.py").write_text(RULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_rules_of_a_test", raising=False)  # of the test before
    return "my_rules_of_a_test"


FAULTY_RULES = {
    "Raises": "round 2, data set 'pico_digits': it raised ZeroDivisionError",
    "Nothing": "round 2.*: it returned no sample: all weights are 0",
    "Same": "round 2.*: the round adds 15, but the rule gives a weight to 1 sample, 1 of",
    "Exits": "round 2.*: it raised SystemExit",
    "Writes": "round 2.*: my_rules_of_a_test.py, line 3., would write into an array .* read-only",
    "Counts": "round 2.*: it changed its attribute 'rounds'",
    "Reads": "round 2.*: it raised TypeError",
    "Different": "round 2.*: it returned different weights for the same candidates",
    "Negative": "a weight that is negative or not finite",
    "Short": r"an array of shape \(2,\); 200 candidates",
}
# one of each kind is quick: it raises, it returns what is no weight, too few, or another answer
QUICK = ("Raises", "Same", "Different", "Negative")


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        pytest.param(name, message, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, message in FAULTY_RULES.items()
    ],
)
def test_a_rule_that_cannot_go_on_ends_the_run_with_a_message(
    tmp_path, own_rules, attribute, message
):
    name = f"{NAME},rule={own_rules}:{attribute}"
    with pytest.raises(BadInput, match=message):
        finished(tmp_path / "run", name)
    with pytest.raises(BadInput, match=message):  # what was done before is kept, the end is equal
        finished(tmp_path / "run", name)
    assert len(Ledger(tmp_path / "run").events) >= 6


def test_a_rule_of_ones_own(tmp_path, own_rules):
    name = f"adaptive:pico_digits,rounds=3,samples=15,candidates=90,rule={own_rules}:First"
    stream, ledger = finished(tmp_path / "run", name)
    first = trained(stream, ledger)["pico_digits.round1"]
    pool = stream.splits_of(first)["pool"].ids
    assert ids(stream, ledger, "pico_digits.round3", "train") == set(pool[:45])
    digest = stream.digest
    assert f"{own_rules}:First (" in stream.schedule.rule and digest == load_stream(name).digest


def test_a_rule_that_depends_on_the_process_is_noticed_when_the_run_is_read(
    tmp_path, own_rules, monkeypatch
):
    name = f"adaptive:pico_digits,rounds=3,samples=15,candidates=90,rule={own_rules}:OfTheProcess"
    stream, ledger = finished(tmp_path / "run", name)
    assert len({r.drawn for r in ledger.of_kind(TrainRecord)}) == 3
    assert len(trained(stream, ledger)) == 3
    monkeypatch.setattr(sys.modules[own_rules], "SEED", 1)
    with pytest.raises(BadInput, match="'pico_digits.round2' is not drawn again as it was"):
        trained(stream, ledger)


def test_a_rule_that_depends_on_the_process_is_noticed_when_the_run_goes_on(
    tmp_path, own_rules, monkeypatch
):
    name = f"adaptive:pico_digits,rounds=3,samples=15,candidates=90,rule={own_rules}:OfTheProcess"
    _, ledger = finished(tmp_path / "run", name)
    lines = ledger.path.read_text().splitlines(keepends=True)
    ledger.path.write_text("".join(lines[:-3]))  # killed before the last training
    monkeypatch.setattr(sys.modules[own_rules], "SEED", 1)
    with pytest.raises(BadInput, match="'pico_digits.round2' is not drawn again as it was"):
        finished(tmp_path / "run", name)
    assert ledger.path.read_text() == "".join(lines[:-3])
    monkeypatch.setattr(sys.modules[own_rules], "SEED", 0)
    finished(tmp_path / "run", name)
    assert ledger.path.read_text() == "".join(lines)


def test_a_rule_that_cannot_be_loaded(tmp_path, own_rules):
    (tmp_path / "not_python.py").write_text("class X(\n")
    (tmp_path / "fails.py").write_text("1 / 0\n")
    for name, message in (
        ("not_python:X", "SyntaxError"),
        ("fails:X", "ZeroDivisionError"),
        (f"{own_rules}:Demanding", "TypeError.*'what'"),
        (f"{own_rules}:Nowhere", "AttributeError"),
    ):
        with pytest.raises(BadInput, match=f"rule {name!r}: cannot be imported .{message}"):
            load_stream(f"adaptive:pico_digits,rule={name}")


def test_the_digest_of_a_rule_covers_its_module(tmp_path, own_rules):
    name = f"adaptive:pico_digits,rule={own_rules}:First"
    before = load_stream(name).digest
    (tmp_path / f"{own_rules}.py").write_text(RULES + "\nHELPER = 1\n")
    del sys.modules[own_rules]
    assert load_stream(name).digest != before


def test_the_digest_of_an_instance_covers_the_module_that_is_named(tmp_path, own_rules):
    (tmp_path / "instances_of_a_test.py").write_text(
        f"import types\nfrom {own_rules} import First\nrule = First()\nPOWER = 1\n"
        "plain = types.SimpleNamespace(about='', sees_labels=False, weights=rule.weights)\n"
    )
    names = [f"adaptive:pico_digits,rule=instances_of_a_test:{each}" for each in ("rule", "plain")]
    before = [load_stream(name).digest for name in names]
    file = tmp_path / "instances_of_a_test.py"
    file.write_text(file.read_text().replace("POWER = 1", "POWER = 25"))
    del sys.modules["instances_of_a_test"]
    after = [load_stream(name).digest for name in names]
    assert before[0] != after[0] and before[1] != after[1]
    del sys.modules["instances_of_a_test"]


def test_missing_data_of_a_pool_are_listed_without_hints_for_streams():
    with pytest.raises(BadInput) as raised:
        load_stream("adaptive:imagenet")
    message = str(raised.value)
    assert "1 data set is not on this machine" in message and "--stream" not in message
    for stream in ("full", "random_40@3"):
        with pytest.raises(BadInput, match=f"prepare --stream={stream}\n.*write {stream}.partial"):
            load_stream(f"adaptive:{stream}")


def test_too_few_images_are_noticed_before_anything_is_trained(tmp_path):
    name = "adaptive:pico_digits+pico_coins,rounds=3,samples=110"
    message = "data set 'pico_coins' has 315 training .* At most samples=105 or rounds=2 is"
    with pytest.raises(BadInput, match=message):
        finished(tmp_path, name)
    assert not Ledger(tmp_path).events


def candidates(wrong, confidence, collected=None):
    n = np.shape(wrong)[1]
    return PoolState(
        ids=np.array([f"x/{i}" for i in range(n)]),
        dataset_ids=np.full(n, "x"),
        wrong=np.array(wrong, np.float32),
        confidence=np.array(confidence, np.float64),
        collected=np.zeros(n, bool) if collected is None else np.array(collected),
    )


def test_weights_of_the_rules_by_hand():
    known = candidates([[1, 1, 0], [1, 0, 0]], [[0.1, 0.4, 0.9], [0.1, 0.8, 0.9]])
    least = rules.UNMISSED
    weights = {name: rule.weights(known) for name, rule in rules.RULES.items() if name != "hardest"}
    assert weights["uniform_mixture"] == pytest.approx([1, least, least])
    assert weights["error_weighted"] == pytest.approx([1, 1 / 3, least])
    assert weights["random"].tolist() == [1, 1, 1]
    assert weights["disagreement"] == pytest.approx([0.09, 0.24 + 0.04, 0.09])
    assert {"uniform_mixture", "error_weighted", "hardest", "disagreement", "random"} == set(
        rules.RULES
    )
    assert all(rule.about for rule in rules.RULES.values())


def test_draws_follow_the_weights_and_never_repeat():
    class Weighted:
        def weights(self, candidates):
            return np.array([1, 2, 4, 0, 8])

    known = candidates([[0] * 5], [[1] * 5], [False, False, False, False, True])
    counts = np.zeros(5)
    for seed in range(3000):
        chosen = draw("t", Weighted(), known, 1, np.random.default_rng(seed))
        counts[chosen] += 1
    assert counts / 3000 == pytest.approx([1 / 7, 2 / 7, 4 / 7, 0, 0], abs=0.03)
    every = draw("t", Weighted(), known, 3, np.random.default_rng(0))
    assert every.tolist() == [0, 1, 2]
    smallest = np.nextafter(0, 1)  # the reciprocal of such a weight is infinite
    Weighted.weights = lambda self, candidates: np.full(5, smallest)
    known = candidates([[0] * 5], [[1] * 5], [True, True, False, False, False])
    for seed in range(20):
        drawn = draw("t", Weighted(), known, 3, np.random.default_rng(seed))
        assert drawn.tolist() == [2, 3, 4]
    with pytest.raises(BadInput, match="adds 4, but .* a weight to 5 samples, 3 of them not"):
        draw("t", Weighted(), known, 4, np.random.default_rng(0))


def test_the_hardest_samples_of_a_cache(whole, tmp_path):
    _, ledger = whole
    import_run(ledger.run_dir, tmp_path / "caches", splits=["pool"])
    name = f"{NAME},rule=hardest,cache={tmp_path / 'caches'}"
    stream, hardest = finished(tmp_path / "run", name)
    assert "hardest (caches " in stream.schedule.rule
    record = hardest.of_kind(TrainRecord)[-1]
    assert record.labels_seen == record.labels == 90
    first = ledger.outcomes(next(r for r in ledger.of_kind(PredictRecord) if r.split == "pool"))
    missed = dict(zip(first["sample_id"], first["correct"] == 0, strict=True))
    added = ids(stream, hardest, "pico_digits.round2", "train") - ids(
        stream, hardest, "pico_digits.round1", "train"
    )
    assert np.mean([missed[i] for i in added]) > np.mean(list(missed.values()))
    with pytest.warns(RunWarning, match="has .* of the 200 candidates; for the others"):
        finished(tmp_path / "other", name, seed=1)


def test_caches_are_read_once_and_labels_of_a_sample_are_averaged(tmp_path):
    name = "adaptive:pico_mosaic,rounds=2,samples=10,candidates=60"
    _, ledger = finished(tmp_path / "known", name)
    import_run(ledger.run_dir, tmp_path / "caches", splits=["pool"])
    hardest = load_stream(f"{name},rule=hardest,cache={tmp_path / 'caches'}")
    cache = EvaluationCache(tmp_path / "caches" / "pico_mosaic")
    wrong: dict[str, list[int]] = {}
    for cell, correct in zip(cache.samples(), cache.matrix().T, strict=True):
        wrong.setdefault(cell.rpartition("#")[0], []).extend(1 - correct)
    shutil.rmtree(tmp_path / "caches")
    run(ncm(), hardest, tmp_path / "run", config={"learner": "x"}, tensorboard=False)
    shares = hardest.schedule._known_misses.of("pico_mosaic", list(wrong))
    assert shares == pytest.approx([np.mean(each) for each in wrong.values()])
    assert len(wrong) == 60 and len(set(shares)) > 2
    with pytest.raises(BadInput, match="pico_mosaic: has none of the candidates"):
        hardest.schedule._known_misses.of("pico_mosaic", ["pico_mosaic/nothing"])


@pytest.mark.parametrize("rule", ["random", "error_weighted", "disagreement"])
def test_all_rules_of_a_hierarchy_use_equally_many_labels(tmp_path, rule):
    name = "adaptive:pico_digits,rounds=4,samples=15,candidates=90,design=hierarchical,width=2"
    _, ledger = finished(tmp_path, f"{name},rule={rule}")
    assert [r.labels for r in ledger.of_kind(TrainRecord)] == [15, 30, 45, 60]


@pytest.mark.parametrize(
    ("across", "most"),
    [
        ("false", 2),
        *(pytest.param(across, 100, marks=pytest.mark.slow) for across in ("false", "true")),
    ],
)
def test_killed_anywhere_it_ends_in_the_same_ledger(tmp_path, across, most):
    name = f"toy@{NAME.replace('rounds=3', 'rounds=2')},across={across}"
    folder = tmp_path / f"answering-{across}"
    done = forked.run(*command(folder / "whole", name, "inline"))
    assert done.returncode == 0, done.stderr
    expected, chance, kills = results(folder / "whole"), random.Random(0), 0
    while True:
        fatal = chance.randint(60, 350) if kills < most else 0
        done = forked.run(*command(folder / "often", name, "inline", fatal))
        if done.returncode == 0:
            break
        assert done.returncode == KILLED, done.stderr
        kills += 1
        assert kills < 100
    assert kills >= 2
    assert results(folder / "often") == expected


@pytest.mark.slow
def test_the_report_shows_rules_beside_the_control(tmp_path):
    runs = []
    for rule in ("uniform_mixture", "random"):
        for seed in (0, 1):
            folder = tmp_path / f"{rule}-{seed}"
            finished(folder, f"{NAME},rule={rule}", seed)
            runs.append(folder)
    page = Page(write_report(runs, tmp_path / "out", figures=True))
    table = page.column("answering-1", "Rule")
    assert [text for text, _ in table] == ["random", "uniform_mixture"]
    text = (tmp_path / "out" / "report.html").read_text()
    assert "<h1>Rules compared on pico_digits+pico_coins</h1>" in text
    assert text.index("<h2>Rules compared") < text.index(f"<h2>Stream {NAME}, rule random")
    (_, control), (_, difference) = page.column("answering-1", "Difference")
    errors = [float(value) for _, value in page.column("answering-1", "Last error")]
    assert control == "" and float(difference) == pytest.approx(errors[1] - errors[0])
    assert "(n = 2)" in page.column("answering-1", "95% interval")[1][0]
    assert [text for text, _ in page.column("answering-1", "Labels seen")] == ["90", "400"]
    assert (tmp_path / "out" / "answering.csv").is_file()
    assert (tmp_path / "out" / "figures" / "answering_a.png").is_file()


def test_a_page_without_such_runs_has_no_such_part(tmp_path):
    run(toy.ToyLearner(), toy.stream(), tmp_path / "run", tensorboard=False)
    page = Page(write_report([tmp_path / "run"], tmp_path / "out"))
    assert "answer back" not in page.text
