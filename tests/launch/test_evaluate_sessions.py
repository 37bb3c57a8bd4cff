"""launch.evaluate start, ask, tell, status and report: a model is evaluated while it runs."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.storage.tables import read_table
from tests.documented_commands import run
from tests.dynamic_evaluation.session_worker import KNOWN, NEW
from tests.evaluation_cache import harness_logs

METHOD = "--method=stratified_mean"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a table and with logs of the same board."""
    monkeypatch.chdir(tmp_path)
    lines = [
        f"m{row},q{column},{value}"
        for row, each in enumerate(KNOWN)
        for column, value in enumerate(each)
    ]
    (tmp_path / "leaderboard.csv").write_text("\n".join(["model,sample,outcome", *lines]))
    for row, values in enumerate(KNOWN):
        harness_logs.write(tmp_path / f"logs/{row}", values.tolist(), model=f"org/m{row}")
    return tmp_path


def evaluate(words, status=0):
    found, output = run(f"nevis-stream evaluate {words}")
    assert found == status, output
    return output


def value(sample):
    return int(NEW[int(sample.lstrip("q"))])


def write_csv(file, samples, model=""):
    head = f"sample,value{',model' if model else ''}"
    rows = [f"{each},{value(each)}{f',{model}' if model else ''}" for each in samples]
    file.write_text("\n".join([head, *rows]))


@pytest.fixture
def begun(folder):
    """A session of 12 answers is begun; what was said."""
    return evaluate(f"start leaderboard.csv --model=new --out=s --budget=12 {METHOD}")


@pytest.fixture
def first(begun):
    """The first samples that the session asks."""
    return evaluate("ask s --count=5").split()


def test_a_session_says_when_it_ends_and_how_it_is_asked(begun):
    assert "ends after 12 answers" in begun and "evaluate ask s" in begun


def test_samples_are_asked_again_until_they_are_answered(first):
    assert len(first) == 5 and evaluate("ask s --count=5").split() == first


@pytest.mark.usefixtures("first")
def test_a_session_without_answers_has_not_ended():
    assert "0 of 12" in evaluate("status s", 1)


def test_answers_of_a_csv_are_recorded(folder, first):
    write_csv(folder / "a.csv", first)
    assert "a.csv: 5 answers recorded\n" in evaluate("tell s a.csv")


def test_answers_that_are_told_again_are_counted_as_before(folder, first):
    write_csv(folder / "a.csv", first[:3])
    assert "a.csv: 3 answers recorded\n" in evaluate("tell s a.csv")
    (folder / "b.json").write_text(json.dumps({each: value(each) for each in first}))
    assert "2 answers recorded, 3 as before" in evaluate("tell s b.json")


def test_another_answer_to_a_sample_is_taken_as_a_correction_alone(folder, first):
    write_csv(folder / "a.csv", first)
    evaluate("tell s a.csv")
    (folder / "c.csv").write_text(f"sample,value\n{first[0]},{1 - value(first[0])}\n")
    assert "c.csv, line 2: sample" in evaluate("tell s c.csv", 2)
    assert "1 answer recorded" in evaluate("tell s c.csv --correct")


def test_a_sample_to_which_the_model_gave_no_answer_is_told_and_the_session_goes_on_to_its_end(
    folder, first
):
    (folder / "d.csv").write_text(f"sample;value\n{first[0]};?\n")
    assert "1 answer recorded" in evaluate("tell s d.csv")
    while samples := [each for each in evaluate("ask s").split() if each.startswith("q")]:
        write_csv(folder / "e.csv", samples)
        evaluate("tell s e.csv")
    assert "ended" in evaluate("status s")


@pytest.fixture
def ended(folder, begun):
    """The session has all its answers."""
    write_csv(folder / "a.csv", evaluate("ask s").split())
    evaluate("tell s a.csv")


@pytest.mark.usefixtures("ended")
def test_a_session_that_has_ended_says_so():
    assert "ended" in evaluate("status s")


@pytest.mark.usefixtures("ended")
def test_a_session_is_reported_in_a_page(folder):
    page = evaluate("report s").strip().splitlines()[-1]
    assert "Live evaluation" in (folder / page).read_text()


@pytest.fixture
def drawn_at_random(folder):
    """A session whose samples are drawn one by one has all its answers."""
    evaluate("start leaderboard.csv --model=a --out=s --method=random_mean --budget=10")
    write_csv(folder / "a.csv", evaluate("ask s").split())
    evaluate("tell s a.csv")


@pytest.mark.usefixtures("drawn_at_random")
def test_the_model_of_a_session_is_compared_with_a_known_one():
    assert "a - m1: " in evaluate("compare s a m1")


@pytest.mark.usefixtures("drawn_at_random")
def test_a_damaged_board_is_not_used(folder):
    cells = folder / "s/board/cells.bin"
    cells.write_bytes(bytes(byte ^ 1 for byte in cells.read_bytes()))
    for command in ("ask s", "tell s a.csv", "status s", "compare s a m1", "report s"):
        assert "is damaged, so it is not used" in evaluate(command, 2)


@pytest.fixture
def of_two(folder):
    """A session of two models is begun; what was said."""
    return evaluate(
        "start leaderboard.csv --model=a --model=b --out=s --until=0.9 --budget=20"
        " --method=random_mean"
    )


@pytest.fixture
def asked(of_two):
    """What two workers were asked of the first model."""
    return [set(evaluate(f"ask s --model=a --count=4 --worker={each}").split()) for each in "xy"]


@pytest.fixture
def told(folder, asked):
    """These are answered, in a file that names the model."""
    write_csv(folder / "a.csv", set.union(*asked), "a")
    return evaluate("tell s a.csv")


def test_the_command_that_comes_after_the_start_can_be_typed_as_it_is(of_two):
    assert "evaluate ask s --model=a" in of_two


@pytest.mark.usefixtures("of_two")
def test_one_of_several_models_is_to_be_named():
    assert "name one: a, b" in evaluate("ask s", 2)


def test_workers_are_asked_different_samples(asked):
    assert len(set.union(*asked)) == 8


def test_answers_of_a_file_that_names_its_model_are_recorded(told):
    assert "8 answers recorded" in told
    assert "a.csv, line 2: does not say whose" not in evaluate("tell s a.csv")


@pytest.mark.usefixtures("told")
def test_answers_that_do_not_say_whose_they_are_need_their_model(folder, asked):
    (folder / "b.json").write_text(json.dumps(dict.fromkeys(asked[0], 1)))
    assert "give --model=NAME" in evaluate("tell s b.json", 2)
    assert "was not asked" in evaluate("tell s b.json --model=b", 2)


@pytest.mark.usefixtures("told")
def test_a_session_with_a_wanted_width_holds_however_often_it_is_looked_at():
    shown = evaluate("status s", 1)
    assert "at most 0.9 wide" in shown and "however often you look" in shown


@pytest.mark.usefixtures("told")
def test_a_session_is_reported_before_its_end(folder):
    assert evaluate("report s") and (folder / "s/report/estimates.csv").exists()


@pytest.fixture
def for_a_harness(folder):
    """What a session of the logs of a harness asks, and what the model answers."""
    evaluate(f"start logs --model=new --out=s --budget=12 {METHOD}")
    asked = json.loads(evaluate("ask s --format=lm_eval"))["quiz"]
    return SimpleNamespace(asked=asked, answers={sample: int(NEW[sample]) for sample in asked})


def test_each_harness_is_asked_the_same_in_its_own_form(for_a_harness):
    asked = for_a_harness.asked
    assert asked == sorted(asked) and len(asked) == 12
    assert sorted(map(int, evaluate("ask s --format=inspect").strip().split(","))) == asked


def test_logs_of_other_questions_are_refused(folder, for_a_harness):
    asked = for_a_harness.asked
    moved = dict(zip(asked, (f"content{each}" for each in [*asked[1:], asked[0]]), strict=True))
    answers = for_a_harness.answers
    harness_logs.write(folder / "wrong", answers, model="org/new", samples=moved)
    assert "it is another question" in evaluate("tell s wrong", 2)


def test_the_logs_of_a_harness_are_read(folder, for_a_harness):
    harness_logs.write(folder / "new", for_a_harness.answers, model="org/new")
    assert "12 answers recorded" in evaluate("tell s new")
    assert "ended" in evaluate("status s")


@pytest.mark.usefixtures("begun")
def test_a_harness_is_not_asked_about_a_board_that_does_not_know_tasks():
    assert "it has no column `dataset`" in evaluate("ask s --format=lm_eval", 2)
    assert "it has no column `dataset`" in evaluate("ask s --format=inspect", 2)


def test_a_harness_that_counts_samples_is_not_asked_about_a_board_that_does_not(folder):
    text = (folder / "leaderboard.csv").read_text().splitlines()
    (folder / "named.csv").write_text(
        "\n".join([f"{text[0]},dataset", *(f"{each},quiz" for each in text[1:])])
    )
    evaluate(f"start named.csv --model=new --out=t --budget=12 {METHOD}")
    assert "does not know its `doc_id`" in evaluate("ask t --format=lm_eval", 2)
    assert evaluate("ask t --format=inspect").startswith("q")


@pytest.fixture
def of_a_cache(folder):
    """A session of a cache that had a correction before has all its answers; its status."""
    evaluate("import leaderboard.csv --cache=c")
    evaluate("remove --cache=c --models=m1 --samples=q4 --reason='before it began'")
    evaluate(f"start c --model=new --out=s --budget=12 {METHOD}")
    write_csv(folder / "a.csv", evaluate("ask s").split())
    evaluate("tell s a.csv")
    return evaluate("status s")


@pytest.fixture
def corrected(folder, of_a_cache):
    """The cache is corrected since, in what the session rests on and elsewhere; what was said."""
    said = evaluate("remove --cache=c --samples=q3 --reason='wrong key'")
    (folder / "other.csv").write_text("model,sample,outcome\nlate,q1,1\n")
    evaluate("import other.csv --cache=c")
    evaluate("remove --cache=c --models=late --reason='not of the board'")
    return said


def test_what_was_corrected_before_a_session_is_not_said(of_a_cache):
    assert "correction" not in of_a_cache


def test_a_correction_tells_that_sessions_say_so(corrected):
    assert "and `report` say so" in corrected


@pytest.mark.usefixtures("corrected")
def test_what_is_corrected_later_is_said_beside_the_estimates(of_a_cache):
    shown = evaluate("status s")
    assert shown.startswith(of_a_cache)
    assert shown.count("rests on values from before a correction") == 1
    assert "all models on q3 removed: wrong key" in shown and "not of the board" not in shown


@pytest.mark.usefixtures("corrected")
def test_what_is_corrected_later_is_in_the_report(folder):
    page = evaluate("report s").strip().splitlines()[-1]
    assert "wrong key" in (folder / page).read_text()


@pytest.mark.usefixtures("of_a_cache")
@pytest.mark.parametrize(
    "words",
    [
        "remove --samples=q3 --reason=x",
        "amend more.csv --reason=x",
        "import more.csv",
        "import --dataset_weights=equal leaderboard.csv",
        "merge c",
        "add-model --model=more.csv --budget=5 --method=random_mean",
        "add-samples --samples=more.csv --budget=2 --method=random_mean",
    ],
)
def test_no_command_changes_the_copy_of_a_session(folder, words):
    (folder / "more.csv").write_text("model,sample,outcome\nm0,q1,1\nm0,q2,0\nz,q1,1\nz,q2,1\n")
    board = EvaluationCache(folder / "s" / "board")
    (folder / "link").symlink_to(board.directory)

    def state():
        values = board.matrix(predicted=True).tolist()
        return values, board.models(), board.about, board.errata(), read_additions(board.directory)

    before = state()
    for cache in ("s/board", "link"):
        assert "is the copy of a session" in evaluate(f"{words} --cache={cache}", 2)
    assert state() == before


@pytest.mark.usefixtures("corrected")
def test_a_corrected_cache_is_ranked_without_the_model_that_was_removed(folder):
    page = evaluate("board c --out=ranked").strip().splitlines()[-1].removeprefix("written: ")
    assert "Leaderboard" in (folder / page).read_text()
    ranked = (folder / "ranked/part-1.csv").read_text()
    assert ranked.startswith("part,rank,") and ranked.count("\n") == 1 + len(KNOWN)


@pytest.mark.usefixtures("of_a_cache")
def test_a_session_whose_cache_was_moved_says_that_it_knows_no_later_corrections(folder):
    (folder / "c").rename(folder / "moved")
    assert "later corrections are not known" in evaluate("status s")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "words,message",
    [
        ("start leaderboard.csv --out=s --budget=12", "start needs --model"),
        ("start leaderboard.csv --out=s --model=m1 --budget=12", "the board has a model 'm1'"),
        ("start leaderboard.csv --out=s --model=new --budget=99", "only 60 samples"),
        ("start leaderboard.csv --out=s --model=new", "give a budget"),
        (
            "start leaderboard.csv --out=s --model=new --until=0.1 --method=quadrature",
            "one by one",
        ),
        ("ask nowhere", "there is no evaluation session here"),
        ("tell nowhere", "at least one file of answers"),
    ],
)
def test_mistakes_are_explained(words, message):
    assert message in evaluate(words, 2)


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    "content,message",
    [
        ("sample,value\nq99,1\n", "line 2: unknown sample 'q99'"),
        ("sample,value\nq1,maybe\n", "line 2: 'maybe' is no number"),
        ("sample,value\nq1,1\nq1,0\n", "line 3: sample 'q1' has another value"),
        ("sample,value,model\nq1,1,old\n", "'old'"),
    ],
)
def test_a_file_of_wrong_answers_is_refused_by_its_line(folder, content, message):
    (folder / "bad.csv").write_text(content)
    assert message in evaluate("tell s bad.csv", 2)


def test_likely_failures_of_all_models_are_in_one_file(folder):
    names = ["org/a", "org_a", "Org/A", "x" * 300, "y: z?*", "=1+1"]
    board = de.read_board(folder / "leaderboard.csv")
    session = de.Session.start("s", board, budget=6, method="stratified_mean", models=names)
    for number, model in enumerate(names):
        session.tell(dict.fromkeys(session.ask(model=model), number % 2), model)
    evaluate("report s")
    rows = read_table(folder / "s/report/failures.csv", "failures.csv", {"model": ""}).records()
    counts = Counter(row["model"] for _, row in rows)
    assert counts == dict.fromkeys([*names[:-1], "'=1+1"], len(session.samples) - 6)
