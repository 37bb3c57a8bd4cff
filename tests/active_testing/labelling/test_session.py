"""A session: draws, labels, what is refused, and that no label is lost."""

import json
import os
import shutil

import numpy as np
import pytest

from nevis_stream.active_testing.labelling.estimates import (
    count_plain_labels,
    estimate_along,
    estimate_models,
    gather_draws,
)
from nevis_stream.active_testing.labelling.files import PoolPart, SessionSettings
from nevis_stream.active_testing.labelling.session import DRAWS, LABELS, Session
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.errors import BadInput, RunLocked
from nevis_stream.launch.label_commands.forms import read_labels
from nevis_stream.queries.session_log import SETTINGS
from nevis_stream.storage import lock_exclusively, record
from nevis_stream.storage.reading import locate, read_bytes
from nevis_stream.storage.record import append_checked, as_lines, encode, seal
from tests.active_testing.labelling.sessions import begin, example, truth
from tests.killed_child import survives


def labelled(session, labels, rounds=2, count=20):
    for _ in range(rounds):
        _, rows = session.next(count)
        session.record(truth(session, rows, labels), "a.csv")
    return session


def state(directory):
    return {file: (directory / file).read_bytes() for file in (DRAWS, LABELS)}


def test_a_session_ends_with_the_exact_risk(tmp_path):
    session, labels = begin(tmp_path)
    labelled(session, labels, 3)
    first, second, both = estimate_models(session, "tuned_difference")
    wrong = session.pool_parts[0].predictions.argmax(axis=2) != labels
    assert first.estimate.value == pytest.approx(wrong[0].mean())
    assert second.estimate.low == second.estimate.high == pytest.approx(wrong[1].mean())
    assert both.estimate.value == pytest.approx(wrong[0].mean() - wrong[1].mean())
    assert both.name == "m0 minus m1"
    with pytest.raises(BadInput, match="every sample of the pool has a label"):
        session.next(1)


def test_intervals_of_sessions_cover(tmp_path):
    """At a coverage of 95%, fewer than 50 of 60 have a probability below 0.1%."""
    covered = 0
    for seed in range(60):
        session, labels = begin(tmp_path / str(seed), n=120, seed=seed, models=1)
        labelled(session, labels, 2, 20)
        estimate = estimate_models(session, "tuned_difference")[0].estimate
        wrong = session.pool_parts[0].predictions[0].argmax(axis=1) != labels
        covered += estimate.low <= wrong.mean() <= estimate.high
    assert covered >= 50


def test_samples_without_a_label_come_again(tmp_path):
    session, labels = begin(tmp_path)
    number, rows = session.next(10)
    assert number == 1 and session.next(10) == (1, rows)
    session.record(truth(session, rows[:4], labels), "a.csv")
    number, again = session.next(8)
    assert number == 2 and again[:6] == rows[4:] and len(again) == 8
    assert session.waiting() == again


def test_labels_after_a_gap_wait(tmp_path):
    """Which labels are missing must not matter, so only those before the first gap count."""
    session, labels = begin(tmp_path)
    _, rows = session.next(30)
    session.record(truth(session, [*rows[:12], *rows[13:]], labels), "a.csv")
    assert gather_draws(session, 0)[0].asked == 12
    session.record(truth(session, [rows[12]], labels), "b.csv")
    assert gather_draws(session, 0)[0].asked == 30


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory):
    """A session of 60 draws of which nobody can label the first four."""
    folder = tmp_path_factory.mktemp("unlabelled")
    session, labels = begin(folder / "session", n=200)
    words = ["?", "NaN", "255", "unknown"]
    for round_number in range(3):
        _, rows = session.next(20)
        lines = ["sample,label"]
        for place, row in enumerate(rows):
            missing = round_number == 0 and place < len(words)
            lines.append(f"{session.ids[row]},{words[place] if missing else labels[row]}")
        (folder / "a.csv").write_text("\n".join(lines))
        session.record(read_labels(session, folder / "a.csv").classes, "a.csv")
    return session.directory


def test_what_nobody_can_label_is_skipped_and_counted(unlabelled):
    session = Session(unlabelled)
    assert not session.waiting()
    assert session.counts() == "56 of 200 samples have a label; 4 samples nobody can label"


def test_what_nobody_can_label_makes_intervals_wider(unlabelled, tmp_path):
    session = Session(unlabelled)
    clean, labels = begin(tmp_path / "clean", n=200)
    labelled(clean, labels, 3, 20)
    for account, whole in zip(
        estimate_models(session, "lure"), estimate_models(clean, "lure"), strict=True
    ):
        estimate = account.estimate
        assert (estimate.observed, estimate.failed, estimate.cost.labels) == (56, 4, 56)
        assert estimate.low < whole.estimate.value < estimate.high
        assert account.width > whole.width


def test_estimates_along_a_session_with_missing_labels_end_with_its_own(unlabelled):
    session = Session(unlabelled)
    assert estimate_along(session, 0, "lure")[-1][1] == estimate_models(session, "lure")[0].estimate
    assert 1 < count_plain_labels(gather_draws(session, 0), 0.1) < 200


def test_what_nobody_could_label_is_labelled_as_a_correction_alone(unlabelled, tmp_path):
    session = Session(shutil.copytree(unlabelled, tmp_path / "session"))
    sample = session.ids[session.draws()[0].samples[0]]
    with pytest.raises(BadInput, match=r"is 'cat', but '\?' was recorded before"):
        session.record({sample: 0}, "b.csv")
    assert session.record({sample: 0}, "b.csv", correct=True) == 1


def test_probabilities_are_those_of_the_draws(tmp_path):
    session, labels = begin(tmp_path)
    labelled(session, labels, 2)
    for draw in session.draws():
        assert (draw.probabilities >= 0.2 / 60 - 1e-12).all() and (draw.probabilities < 1).all()
    draws = gather_draws(session, 0, 1)[0]
    first, second = gather_draws(session, 0)[0], gather_draws(session, 1)[0]
    np.testing.assert_allclose(draws.predicted, first.predicted - second.predicted)
    np.testing.assert_allclose(draws.losses, first.losses - second.losses)


LATER_IDS, LATER_PREDICTIONS, LATER_LABELS = example(40, seed=9, prefix="new")
LATER = PoolPart("later", LATER_IDS, LATER_PREDICTIONS, SurrogateData(LATER_PREDICTIONS[0]))


@pytest.fixture
def few(tmp_path):
    """A session with 45 labels of its 60 samples, and the classes of all."""
    session, labels = begin(tmp_path / "session")
    return labelled(session, labels, 1, 45), labels


@pytest.fixture
def grown(few):
    """The session after its pool has grown by 40 samples, and the classes of all."""
    session, labels = few
    session.grow(LATER)
    return session, np.concatenate([labels, LATER_LABELS])


def test_a_pool_that_grows_keeps_its_labels(few):
    session, _ = few
    before = state(session.directory)
    session.grow(LATER)
    assert len(session.ids) == 100 and state(session.directory) == before


def test_a_grown_pool_has_no_estimate_before_its_new_samples_have_labels(grown):
    session, _ = grown
    account = estimate_models(session, "tuned_difference")[0]
    assert np.isnan(account.estimate.value)
    assert (
        account.estimate.reason == "the samples added later (part 1): there is no usable label yet"
    )


def test_a_grown_pool_with_all_its_labels_has_the_exact_risk(grown):
    session, labels = grown
    labelled(Session(session.directory), labels, 3, 20)
    session = Session(session.directory)
    account = estimate_models(session, "tuned_difference")[0]
    predicted = np.concatenate([part.predictions[0] for part in session.pool_parts]).argmax(axis=1)
    assert account.estimate.value == pytest.approx((predicted != labels).mean())


def test_a_pool_that_grows_again_by_the_same_samples_stays_as_it_is(grown):
    session, _ = grown
    session.grow(LATER)
    assert len(Session(session.directory).ids) == 100


def test_a_pool_does_not_grow_by_samples_that_it_has(grown):
    session, _ = grown
    predictions = LATER_PREDICTIONS[:, 1:]
    with pytest.raises(BadInput, match="39 of its 39 samples are in the session already"):
        session.grow(PoolPart("later", LATER_IDS[1:], predictions, SurrogateData(predictions[0])))


def test_draws_of_a_grown_pool_come_from_all_of_it(tmp_path):
    session, labels = begin(tmp_path)
    ids, predictions, more = example(180, seed=9, prefix="new")
    session.grow(PoolPart("later", ids, predictions, SurrogateData(predictions[0])))
    _, rows = session.next(200)
    assert sum(row >= 60 for row in rows) == 150
    labelled(session, np.concatenate([labels, more]), 1, 200)
    estimate = estimate_models(session, "tuned_difference")[0].estimate
    assert estimate.observed == 200 and estimate.low < estimate.value < estimate.high


@pytest.mark.parametrize(
    "answers,message",
    [
        ({"s99": 0}, r"'s99'.*s\d+, s\d+"),
        ({"undrawn": 0}, "was not drawn, so its label cannot be used"),
        ({"changed": 0}, "is 'cat', but '.*' was recorded before. Nothing of this file"),
    ],
)
def test_wrong_labels_are_refused_and_nothing_is_recorded(tmp_path, answers, message):
    session, labels = begin(tmp_path)
    _, rows = session.next(10)
    nonzero = next(row for row in rows if labels[row])
    session.record(truth(session, [nonzero], labels), "a.csv")
    undrawn = next(row for row in range(60) if row not in rows)
    names = {"undrawn": session.ids[undrawn], "changed": session.ids[nonzero]}
    good = truth(session, [row for row in rows if row != nonzero][:1], labels)
    before = state(tmp_path)
    with pytest.raises(BadInput, match=message):
        session.record(good | {names.get(key, key): each for key, each in answers.items()}, "b.csv")
    assert state(tmp_path) == before
    if "changed" in answers:
        session.record({session.ids[nonzero]: 0}, "b.csv", correct=True)
        assert session.labels()[nonzero] == 0


def test_another_session_in_the_directory_is_refused(tmp_path):
    begin(tmp_path)
    begin(tmp_path)  # the same one
    with pytest.raises(BadInput, match="contains another session .*rule"):
        begin(tmp_path, rule="uniform")
    with pytest.raises(BadInput, match="there is no labelling session here"):
        Session(tmp_path / "elsewhere")
    (tmp_path / "session.json").write_text('{"pool": 1')
    with pytest.raises(BadInput, match="session.json: damaged"):
        Session(tmp_path)


def test_a_kill_anywhere_loses_nothing(tmp_path):
    """Every change of a directory and every append is once the last thing that happens."""

    def work(directory):
        session, labels = begin(directory)
        for name in ("a.csv", "b.csv"):
            _, rows = session.next(12)
            session.record(truth(session, rows, labels), name)

    work(tmp_path / "whole")
    expected = state(tmp_path / "whole")
    for fatal in range(1, 60):
        directory = tmp_path / str(fatal)
        if survives(lambda directory=directory: work(directory), fatal):
            break
        recorded = Session(directory).labels() if (directory / LABELS).exists() else {}
        work(directory)
        assert Session(directory).labels().items() >= recorded.items()
        # a second run of `work` goes on where the first was: the same draws, in the same order
        whole, mine = ((path / DRAWS).read_bytes() for path in (tmp_path / "whole", directory))
        assert mine.startswith(whole) or whole.startswith(mine)
    else:
        raise AssertionError("never survived")
    assert fatal > 8 and state(directory) == expected


def test_a_torn_line_does_not_count_and_is_replaced(tmp_path):
    session, labels = begin(tmp_path)
    _, rows = session.next(10)
    session.record(truth(session, rows[:5], labels), "a.csv")
    whole = (tmp_path / LABELS).read_bytes()
    session.record(truth(session, rows[5:], labels), "b.csv")
    torn = (tmp_path / LABELS).read_bytes()[len(whole) :]
    for length in range(len(torn)):
        (tmp_path / LABELS).write_bytes(whole + torn[:length])
        assert len(session.labels()) == 5
    session.record(truth(session, rows[5:], labels), "b.csv")
    assert (tmp_path / LABELS).read_bytes() == whole + torn
    (tmp_path / LABELS).write_bytes(b"{nothing\n" + whole)
    with pytest.raises(BadInput, match="labels.jsonl, line 1: "):
        session.labels()


@pytest.mark.parametrize(
    "file,line",
    [
        (LABELS, b'{"source": "a", "labels": {"s99": 0}}'),
        (LABELS, b'{"source": "a", "labels": {"s1": 3}}'),
        (LABELS, b'{"source": "a", "labels": {"s1": "cat"}}'),
        (LABELS, b'{"source": "a", "labels": {"s1": 1.0}}'),
        (LABELS, b"[" * 100_000),
        (LABELS, b"{}"),
        (LABELS, b"[1]"),
        (LABELS, b"\xff\xfe"),
        (DRAWS, b'{"round": 2}'),
        (DRAWS, b'{"round": 2, "draws": [{"generation": 5, "samples": []}]}'),
        (
            DRAWS,
            b'{"round": 2, "draws": [{"generation": 0, "samples": [9999], "probabilities": [0.5],'
            b' "predicted": [[1], [1]], "remaining": [[1], [1]]}]}',
        ),
        (
            DRAWS,
            b'{"round": 2, "draws": [{"generation": 0, "samples": [1], "probabilities": [0.5],'
            b' "predicted": [[1]], "remaining": [[1], [1]]}]}',
        ),
    ],
)
def test_a_damaged_line_is_named(tmp_path, file, line):
    session, labels = begin(tmp_path)
    labelled(session, labels, 1, 10)
    with open(tmp_path / file, "ab") as damaged:
        damaged.write(line + b"\n")
    with pytest.raises(BadInput, match=f"{file}, line 2: "):
        session.next(1)
    if line.startswith(b"{"):  # what it says is checked too, not its checksum alone
        without = (tmp_path / file).read_bytes()[: -len(line) - 1]
        (tmp_path / file).write_bytes(without)
        append_checked(tmp_path / file, json.loads(line))
    with pytest.raises(BadInput, match=f"{file}, line 2: "):
        session.next(1)


def test_draws_that_are_twice_there_or_missing_are_noticed(tmp_path):
    session, labels = begin(tmp_path)
    labelled(session, labels, 1, 10)
    line = (tmp_path / DRAWS).read_bytes()
    (tmp_path / DRAWS).write_bytes(2 * line)
    with pytest.raises(BadInput, match="draws.jsonl, line 2: .*a line before it"):
        session.next(1)
    (tmp_path / DRAWS).write_bytes(2 * without_checksum(line))
    with pytest.raises(BadInput, match="draws.jsonl, line 2: .*a second time"):
        earlier(session.draws)
    (tmp_path / DRAWS).unlink()
    for use in (lambda: session.next(1), lambda: session.record({session.ids[0]: 0}, "a.csv")):
        with pytest.raises(BadInput, match="draws.jsonl: .*the rounds of 10 samples with a label"):
            use()


def test_exchanged_samples_and_changed_settings_are_refused(tmp_path):
    session, _ = begin(tmp_path)
    file = tmp_path / SETTINGS
    whole = file.read_text()
    file.write_text(whole.replace('"seed": 0', '"seed": 1'))
    for use in (lambda: Session(tmp_path), lambda: begin(tmp_path, seed=1)):
        with pytest.raises(BadInput, match="session.json: damaged .it has changed"):
            use()
    values = json.loads(whole)
    del values["check"]
    file.write_text(json.dumps(values, indent=1, sort_keys=True))  # as an earlier version did
    with pytest.warns(UserWarning, match="without a checksum"):
        assert Session(tmp_path).settings == session.settings
    assert file.read_text() == whole
    begin(tmp_path / "other", seed=1)
    shutil.rmtree(tmp_path / "generation-0")
    shutil.copytree(tmp_path / "other" / "generation-0", tmp_path / "generation-0")
    with pytest.raises(BadInput, match="generation-0 is not what the session began with"):
        Session(tmp_path).next(1)


def test_a_session_that_is_passed_on_has_no_absolute_path(tmp_path):
    def start(directory):
        return Session.start(directory, settings, part)

    ids, predictions, _ = example()
    pool, models = str(tmp_path / "pool.npz:part"), [str(tmp_path / "m0"), "m1"]
    part = PoolPart(pool, ids, predictions, SurrogateData(predictions[0]))
    names = "zero_one", "expected_loss", "tested_model"
    settings = SessionSettings(pool, models, ["cat", "dog", "owl"], *names, 0.2, 0, part.digest)
    begun = start(tmp_path / "first")
    assert start(begun.directory).settings == begun.settings
    for file in begun.directory.rglob("*.json"):
        assert str(tmp_path) not in file.read_text()
    session = Session(shutil.copytree(begun.directory, tmp_path / "second"))
    assert session.settings.name == begun.settings.name
    assert (session.models, session.pool_parts[0].pool) == (models, pool)
    # an earlier version kept them
    earlier = session.settings.change_paths(lambda path: locate(path, session.directory))
    (session.directory / SETTINGS).write_text(seal(as_lines(vars(earlier))))
    assert start(session.directory).settings == earlier


def test_a_session_without_its_settings_is_not_begun_anew(tmp_path):
    """Its labels were given for other classes, perhaps, and its draws with another model."""
    session, labels = begin(tmp_path)
    labelled(session, labels, 1, 10)
    (tmp_path / SETTINGS).unlink()
    before = (tmp_path / "generation-0" / "models.npy").read_bytes()
    with pytest.raises(
        BadInput, match="contains the draws.jsonl of a session, but no session.json"
    ):
        begin(tmp_path, seed=1)
    assert (tmp_path / "generation-0" / "models.npy").read_bytes() == before
    for name in (DRAWS, LABELS):
        (tmp_path / name).unlink()
    (tmp_path / "generation-1").mkdir()
    with pytest.raises(BadInput, match="contains the generation-1 of a session"):
        begin(tmp_path)


def without_checksum(line):
    """A line as an earlier version wrote it."""
    values = json.loads(line)
    del values["after"], values["check"]
    return encode(values).encode() + b"\n"


def earlier(read):
    """Reads a file that an earlier version wrote."""
    with pytest.warns(UserWarning, match="an earlier version wrote it, without checksums"):
        return read()


def test_every_changed_digit_of_a_log_is_named(tmp_path):
    session, labels = begin(tmp_path)
    labelled(session, labels, 2, 3)
    for name in (DRAWS, LABELS):
        whole = (tmp_path / name).read_bytes()
        digits = [place for place, byte in enumerate(whole) if chr(byte).isdigit()]
        for place in digits[:: len(digits) // 40]:
            # never to 0, with which no longer number of JSON may begin
            changed = b"2" if whole[place] == ord("1") else bytes([whole[place] ^ 1])
            (tmp_path / name).write_bytes(whole[:place] + changed + whole[place + 1 :])
            line = whole[:place].count(b"\n") + 1
            noticed = "it has changed|Expecting"  # 14.5 becomes 04.5, which is no JSON
            with pytest.raises(BadInput, match=rf"{name}, line {line}: .*({noticed})"):
                session.history()
        first, second = whole.splitlines(keepends=True)
        for lines in (second, second + first):
            (tmp_path / name).write_bytes(lines)
            with pytest.raises(BadInput, match=f"{name}, line 1: .*a line before it"):
                session.history()
        (tmp_path / name).write_bytes(whole)
    session.history()


@pytest.mark.parametrize("probability", ["NaN", "-0.1", "0", "1.5", "1e999"])
def test_what_is_no_probability_of_a_draw_is_refused(tmp_path, probability):
    session, labels = begin(tmp_path)
    labelled(session, labels, 1, 3)
    values = json.loads(without_checksum((tmp_path / DRAWS).read_bytes()))
    values["draws"][0]["probabilities"][1] = 7
    text = json.dumps(values).replace(" 7,", f" {probability},")
    (tmp_path / DRAWS).write_text(text + "\n")
    with pytest.raises(BadInput, match="draws.jsonl, line 1: .*probability of a draw"):
        earlier(session.draws)


def test_a_session_of_an_earlier_version_goes_on_with_checksums(tmp_path):
    session, labels = begin(tmp_path)
    labelled(session, labels, 1, 5)
    for name in (DRAWS, LABELS):
        (tmp_path / name).write_bytes(without_checksum((tmp_path / name).read_bytes()))
    assert len(earlier(session.labels)) == 5
    labelled(session, labels, 1, 5)
    assert (
        len(session.history().answers) == 10
    )  # what was read is not read again, so nothing is said
    file = tmp_path / DRAWS
    file.write_bytes(file.read_bytes().replace(b'"round":1', b'"round":2'))
    with pytest.raises(BadInput, match="line 2: .*a line before it has changed"):
        session.draws()


def test_changed_probabilities_are_noticed(tmp_path):
    begin(tmp_path)
    file = tmp_path / "generation-0" / "models.npy"
    np.save(file, np.load(file)[:, ::-1])
    with pytest.raises(BadInput, match="generation-0: .*the models' probabilities"):
        Session(tmp_path).next(1)


@pytest.mark.parametrize("left", [None, 0, 1])
def test_labels_that_are_gone_are_noticed_and_can_be_recorded_again(tmp_path, left):
    session, labels = begin(tmp_path)
    rows = np.concatenate([draw.samples for draw in labelled(session, labels, 2, 10).draws()])
    session.next(10)
    lines = (tmp_path / LABELS).read_bytes().splitlines(keepends=True)
    (tmp_path / LABELS).unlink()
    if left is not None:
        (tmp_path / LABELS).write_bytes(b"".join(lines[:left]))
    for use in (session.waiting, lambda: session.next(10), lambda: gather_draws(session, 0)):
        with pytest.raises(BadInput, match="labels.jsonl: .*drawn with 20"):
            use()
    session.record(truth(session, rows, labels), "again.csv")
    assert gather_draws(session, 0)[0].asked == 20


def test_the_damaged_file_is_named_not_the_one_that_needs_it(tmp_path):
    session, labels = begin(tmp_path)
    labelled(session, labels, 1, 10)
    folder = tmp_path / "generation-0"
    models = np.load(folder / "models.npy")
    whole = {name: (folder / name).read_bytes() for name in ("ids.json", "models.npy")}
    for wrong in (models[:1], models[..., :2], models.astype(str)):
        np.save(folder / "models.npy", wrong)
        with pytest.raises(BadInput, match="generation-0: "):
            Session(tmp_path).next(1)
    (folder / "models.npy").write_bytes(b"")
    with pytest.raises(BadInput, match="generation-0: "):
        Session(tmp_path).labels()
    (folder / "models.npy").write_bytes(whole["models.npy"])
    for content in ("[]", '{"pool": "nowhere", "ids": ["s1"]}', '{"pool": null, "ids": ["s1"]}'):
        (folder / "ids.json").write_text(content)
        with pytest.raises(BadInput, match="generation-0: "):
            Session(tmp_path).labels()
    (folder / "ids.json").write_bytes(whole["ids.json"])
    assert len(Session(tmp_path).labels()) == 10


@pytest.mark.parametrize("name,value", [("classes", 3), ("models", None), ("uniform", "much")])
def test_damaged_settings_are_named(tmp_path, name, value):
    begin(tmp_path)
    settings = json.loads((tmp_path / "session.json").read_text())
    (tmp_path / "session.json").write_text(json.dumps(settings | {name: value}))
    with pytest.raises(BadInput, match="session.json: "):
        Session(tmp_path)


def test_two_people_record_at_once(tmp_path):
    """Eight processes with five labels each, and no label is lost."""
    session, labels = begin(tmp_path)
    _, rows = session.next(40)
    children = []
    for part in np.array_split(rows, 8):
        child = os.fork()
        if child == 0:
            try:
                for row in part:
                    Session(tmp_path).record(truth(session, [int(row)], labels), "part.csv")
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert session.labels() == {row: labels[row] for row in rows}
    lines = (tmp_path / LABELS).read_text().splitlines()
    assert len(lines) == 40 and all(json.loads(line) for line in lines)


def test_two_people_who_disagree_are_told(tmp_path):
    session, labels = begin(tmp_path)
    _, rows = session.next(1)
    right = int(labels[rows[0]])
    session.record({session.ids[rows[0]]: right}, "anna.csv")
    with pytest.raises(BadInput, match="bert.csv: sample .* was recorded before"):
        Session(tmp_path).record({session.ids[rows[0]]: (right + 1) % 3}, "bert.csv")


def test_two_draws_at_once_are_refused(tmp_path):
    session, _ = begin(tmp_path)
    with (
        lock_exclusively(tmp_path / "lock", ""),
        pytest.raises(RunLocked, match="is drawing samples"),
    ):
        session.next(5)


@pytest.mark.parametrize(
    "text,message",
    [
        ("sample,class\n", "has no column label; .* its columns are sample, class"),
        ("", "has no column sample or label; .* its columns are none"),
        ("session,sample,label\nsother,s1,cat\n", "line 2: is of session 'sother', but"),
        ("sample,label\ns1,cow\n", "line 2: .*'cow'.*cat, dog, owl"),
        ("sample,label\ns1,3\n", "line 2: .*'3'.*cat, dog, owl"),
        ("sample,label\ns1,cat\ns1,dog\n", "line 3: sample 's1' is 'dog' here, but 'cat' on an"),
        ('sample,label\ns1,"cat\ns2,dog\n', "line 2: is not csv .*quotation mark is not closed"),
        ("sample,label\ns1\n", "line 2: has 1 cell, the first line has 2"),
        ("sample,label\ns1,cat,dog\n", "line 2: has 3 cells, the first line has 2"),
        ("sample,label,label\ns1,cat,dog\n", "has several columns 'label'"),
        ("session,sample,label,session\nx,s1,cat,x\n", "has several columns 'session'"),
        ("sample|label\ns1|cat\n", r"its columns are sample\|label"),
        (f"sample,label\ns1,{'7' * 6000}\n", "line 2: .*'7{60}…'"),
        (f"sample,label\ns1,{'x' * 200_000}\n", "line 2: is not csv"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, message):
    session, _ = begin(tmp_path / "session")
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(BadInput, match=f"labels.csv.*{message}"):
        read_labels(session, tmp_path / "labels.csv")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    session, _ = begin(tmp_path / "session")
    with pytest.raises(BadInput, match="none.csv: "):
        read_labels(session, tmp_path / "none.csv")
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"picture.csv, line 1: is not UTF-8 text"):
        read_labels(session, tmp_path / "picture.csv")


def test_labels_may_be_names_or_numbers(tmp_path):
    session, _ = begin(tmp_path / "session")
    name = session.settings.name
    (tmp_path / "a.csv").write_bytes(
        f"\ufeffsession,sample, label\r\n{name},s1,owl,,\r\n{name},s2,0\r\n{name},s3,\r\n".encode()
    )
    assert read_labels(session, tmp_path / "a.csv").classes == {"s1": 2, "s2": 0}
    (tmp_path / "b.csv").write_text("sample;label\n\ns1;owl\n;;\ns2;0\n")
    assert read_labels(session, tmp_path / "b.csv").classes == {"s1": 2, "s2": 0}
    (tmp_path / "c.csv").write_bytes("sample\tlabel\r\ns1\towl\r\n".encode("utf-16"))
    assert read_labels(session, tmp_path / "c.csv").classes == {"s1": 2}


def test_a_number_is_the_name_of_a_class_where_one_is_called_so(tmp_path):
    session, _ = begin(tmp_path / "session", classes=["1", "2", "café"])
    for label, number in {"1": 0, "02": 1, "cafe\u0301": 2}.items():
        (tmp_path / "a.csv").write_text(f"sample,label\ns1,{label}\n")
        assert read_labels(session, tmp_path / "a.csv").classes == {"s1": number}
    (tmp_path / "a.csv").write_text("sample,label\ns1,0\n")
    with pytest.raises(BadInput, match="line 2: .*'0'.*1, 2"):
        read_labels(session, tmp_path / "a.csv")


def test_history_and_the_labels_that_random_testing_needs(tmp_path):
    session, labels = begin(tmp_path, n=200)
    labelled(session, labels, 3, 30)
    points = estimate_along(session, 0, "tuned_difference", points=5)
    assert [count for count, _ in points][-1] == 90 and len(points) == 5
    assert points[-1][1] == estimate_models(session, "tuned_difference")[0].estimate
    part = gather_draws(session, 0)
    needed = [count_plain_labels(part, half) for half in (0.2, 0.05, 0.01)]
    assert 1 < needed[0] < needed[1] < needed[2] <= 200
    wrong = session.pool_parts[0].predictions[0].argmax(axis=1) != labels
    expected = 1 / ((0.05 / 1.987) ** 2 / wrong.var() + 1 / 200)
    assert needed[1] == pytest.approx(expected, rel=0.25)


def test_the_logs_are_read_once_however_many_models_there_are(tmp_path, monkeypatch):
    session, labels = begin(tmp_path)
    labelled(session, labels, 2)
    read = []
    monkeypatch.setattr(
        record, "read_bytes", lambda file, **how: read.append(file) or read_bytes(file, **how)
    )
    session = Session(tmp_path)
    assert session.counts() and len(estimate_models(session, "lure")) == 3 and not session.waiting()
    assert sorted(file.name for file in read) == [DRAWS, LABELS]
    _, rows = session.next(3)  # what is appended is seen
    session.record(truth(session, rows, labels), "b.csv")
    assert len(session.labels()) == 43
