"""launch.evaluate start, ask, tell, status and report: a model is evaluated while it runs."""

import json

import pytest

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


def test_the_loop_over_files(folder):
    begun = evaluate(f"start leaderboard.csv --model=new --out=s --budget=12 {METHOD}")
    assert "ends after 12 answers" in begun and "evaluate ask s" in begun
    first = evaluate("ask s --count=5").split()
    assert len(first) == 5 and evaluate("ask s --count=5").split() == first
    assert "0 of 12" in evaluate("status s", 1)
    write_csv(folder / "a.csv", first[:3])
    assert "a.csv: 3 answers recorded\n" in evaluate("tell s a.csv")
    (folder / "b.json").write_text(json.dumps({each: value(each) for each in first}))
    assert "2 answers recorded, 3 as before" in evaluate("tell s b.json")
    (folder / "c.csv").write_text(f"sample,value\n{first[0]},{1 - value(first[0])}\n")
    assert "c.csv, line 2: sample" in evaluate("tell s c.csv", 2)
    assert "1 answer recorded" in evaluate("tell s c.csv --correct")
    rest = evaluate("ask s").split()
    (folder / "d.csv").write_text(f"sample;value\n{rest[0]};?\n")  # the model gave none
    assert "1 answer recorded" in evaluate("tell s d.csv")
    while samples := [each for each in evaluate("ask s").split() if each.startswith("q")]:
        write_csv(folder / "e.csv", samples)
        evaluate("tell s e.csv")
    assert "ended" in evaluate("status s")
    page = evaluate("report s").strip().splitlines()[-1]
    assert "Live evaluation" in (folder / page).read_text()


def test_a_damaged_board_is_not_used(folder):
    evaluate("start leaderboard.csv --model=a --out=s --method=random_mean --budget=10")
    write_csv(folder / "a.csv", evaluate("ask s").split())
    evaluate("tell s a.csv")
    assert "a - m1: " in evaluate("compare s a m1")
    cells = folder / "s/board/cells.bin"
    cells.write_bytes(bytes(byte ^ 1 for byte in cells.read_bytes()))
    for command in ("ask s", "tell s a.csv", "status s", "compare s a m1", "report s"):
        assert "is damaged, so it is not used" in evaluate(command, 2)


def test_several_models_and_workers(folder):
    begun = evaluate("start leaderboard.csv --model=a --model=b --out=s --until=0.9 --budget=20")
    assert "evaluate ask s --model=a" in begun  # the command that comes next can be typed as it is
    assert "name one: a, b" in evaluate("ask s", 2)
    one, two = (
        set(evaluate(f"ask s --model=a --count=4 --worker={each}").split()) for each in "xy"
    )
    assert len(one | two) == 8
    write_csv(folder / "a.csv", one | two, "a")
    evaluate("tell s a.csv")
    assert "a.csv, line 2: does not say whose" not in evaluate("tell s a.csv")
    (folder / "b.json").write_text(json.dumps(dict.fromkeys(one, 1)))
    assert "give --model=NAME" in evaluate("tell s b.json", 2)
    assert "was not asked" in evaluate("tell s b.json --model=b", 2)
    shown = evaluate("status s", 1)
    assert "at most 0.9 wide" in shown and "however often you look" in shown
    assert evaluate("report s") and (folder / "s/report/estimates.csv").exists()


def test_harnesses_are_asked_and_their_logs_are_read(folder):
    evaluate(f"start logs --model=new --out=s --budget=12 {METHOD}")
    asked = json.loads(evaluate("ask s --format=lm_eval"))["quiz"]
    assert asked == sorted(asked) and len(asked) == 12
    assert sorted(map(int, evaluate("ask s --format=inspect").strip().split(","))) == asked
    answers = {sample: int(NEW[sample]) for sample in asked}
    moved = dict(zip(asked, (f"content{each}" for each in [*asked[1:], asked[0]]), strict=True))
    harness_logs.write(folder / "wrong", answers, model="org/new", samples=moved)
    assert "it is another question" in evaluate("tell s wrong", 2)
    harness_logs.write(folder / "new", answers, model="org/new")
    assert "12 answers recorded" in evaluate("tell s new")
    assert "ended" in evaluate("status s")


def test_a_board_that_does_not_know_tasks_or_numbers_is_refused(folder):
    evaluate(f"start leaderboard.csv --model=new --out=s --budget=12 {METHOD}")
    assert "it has no column `dataset`" in evaluate("ask s --format=lm_eval", 2)
    assert "it has no column `dataset`" in evaluate("ask s --format=inspect", 2)
    text = (folder / "leaderboard.csv").read_text().splitlines()
    (folder / "named.csv").write_text(
        "\n".join([f"{text[0]},dataset", *(f"{each},quiz" for each in text[1:])])
    )
    evaluate(f"start named.csv --model=new --out=t --budget=12 {METHOD}")
    assert "does not know its `doc_id`" in evaluate("ask t --format=lm_eval", 2)
    assert evaluate("ask t --format=inspect").startswith("q")


def test_what_is_corrected_later_is_said_beside_the_estimates(folder):
    evaluate("import leaderboard.csv --cache=c")
    evaluate("remove --cache=c --models=m1 --samples=q4 --reason='before it began'")
    evaluate(f"start c --model=new --out=s --budget=12 {METHOD}")
    write_csv(folder / "a.csv", evaluate("ask s").split())
    evaluate("tell s a.csv")
    before = evaluate("status s")
    assert "correction" not in before
    assert "and `report` say so" in evaluate("remove --cache=c --samples=q3 --reason='wrong key'")
    (folder / "other.csv").write_text("model,sample,outcome\nlate,q1,1\n")
    evaluate("import other.csv --cache=c")
    evaluate("remove --cache=c --models=late --reason='not of the board'")
    shown = evaluate("status s")
    assert shown.startswith(before) and shown.count("rests on values from before a correction") == 1
    assert "all models on q3 removed: wrong key" in shown and "not of the board" not in shown
    page = evaluate("report s").strip().splitlines()[-1]
    assert "wrong key" in (folder / page).read_text()
    assert "is the copy of a session" in evaluate(
        "remove --cache=s/board --samples=q3 --reason=x", 2
    )
    page = evaluate("board c --out=ranked").strip().splitlines()[-1].removeprefix("written: ")
    assert "Leaderboard" in (folder / page).read_text()
    ranked = (folder / "ranked/part-1.csv").read_text()
    assert ranked.startswith("part,rank,") and ranked.count("\n") == 1 + len(KNOWN)
    (folder / "c").rename(folder / "moved")
    assert "later corrections are not known" in evaluate("status s")


def test_mistakes(folder):
    start = "start leaderboard.csv --out=s"
    for words, message in [
        (f"{start} --budget=12", "start needs --model"),
        (f"{start} --model=m1 --budget=12", "the board has a model 'm1'"),
        (f"{start} --model=new --budget=99", "only 60 samples"),
        (f"{start} --model=new", "give a budget"),
        (f"{start} --model=new --until=0.1 --method=quadrature", "one by one"),
        ("ask nowhere", "there is no evaluation session here"),
        ("tell nowhere", "at least one file of answers"),
    ]:
        assert message in evaluate(words, 2)
    evaluate(f"{start} --model=new --budget=12 {METHOD}")
    for content, message in [
        ("sample,value\nq99,1\n", "line 2: unknown sample 'q99'"),
        ("sample,value\nq1,maybe\n", "line 2: 'maybe' is no number"),
        ("sample,value\nq1,1\nq1,0\n", "line 3: sample 'q1' has another value"),
        ("sample,value,model\nq1,1,old\n", "'old'"),
    ]:
        (folder / "bad.csv").write_text(content)
        assert message in evaluate("tell s bad.csv", 2)
