"""`evaluate with-lm-eval` and `with-inspect`, with programs that do what the harnesses do; the real
ones are in `test_harnesses`.
"""

import contextlib
import csv
import fcntl
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from nevis_stream.dynamic_evaluation import session_start
from nevis_stream.launch.evaluate_commands import harnesses
from tests.dynamic_evaluation.session_worker import KNOWN, NEW
from tests.forked import Started
from tests.launch.test_evaluate_sessions import METHOD, evaluate, folder

__all__ = ["folder"]
PROGRAM = """
import json, os, sys
words = dict(zip(sys.argv[1:], sys.argv[2:]))
out, asked = words["--output_path"], json.load(open(words["--samples"]))
given = sys.argv[1:].count("--log_samples") == 1 and words["--tasks"] == "quiz"
if not given or os.path.exists("broken"):
    sys.exit(3)
samples = asked["quiz"][: 2 if os.path.exists("slow") else None]
values = json.load(open("values.json"))
with open(f"{out}/samples_quiz_2024-06-28T00-00-00.00001.jsonl", "w") as file:
    for each in samples:
        line = {"doc_id": each, "filter": "none", "metrics": ["acc"], "acc": values[each]}
        print(json.dumps(line | {"doc_hash": f"content{each}"}), file=file)
"""


@pytest.fixture
def command(folder):
    (folder / "harness.py").write_text(PROGRAM)
    (folder / "values.json").write_text(json.dumps(NEW.tolist()))
    return f"with-lm-eval s -- {sys.executable} harness.py --output_path=out"


def test_a_harness_is_run_until_the_session_has_ended(folder, command):
    evaluate(f"start logs --model=new --out=s --budget=6 {METHOD}")
    (folder / "broken").touch()
    assert "ended with status 3" in evaluate(command, 2)
    (folder / "broken").unlink()
    (folder / "slow").touch()  # every start answers two of what is asked
    assert "ended" in evaluate(command)
    assert (
        sorted(each.name for each in folder.glob("out/*/samples*"))
        == ["samples_quiz_2024-06-28T00-00-00.00001.jsonl"] * 3
    )
    answers = [json.loads(line) for line in (folder / "s/answers.jsonl").read_text().splitlines()]
    values = {sample: each for line in answers for sample, each in line["answers"]["new"].items()}
    assert len(values) == 6
    assert values == {each: float(NEW[int(each.removeprefix("quiz/"))]) for each in values}
    assert "evaluate status s" in evaluate("tell s out/asked-0002")


def test_what_the_session_says_is_not_given_twice(folder, command):
    evaluate(f"start logs --model=new --out=s --budget=6 {METHOD}")
    assert "--tasks: the session says" in evaluate(f"{command} --tasks quiz", 2)
    assert "--output_path=FOLDER" in evaluate("with-lm-eval s -- lm_eval run", 2)
    assert "cannot be started" in evaluate("with-lm-eval s -- ./absent -o out", 2)
    (folder / "file").touch()
    assert "no folder can be made there" in evaluate("with-lm-eval s -- lm_eval -o file", 2)
    assert "--log-dir=FOLDER" in evaluate("with-inspect s", 2)


def test_one_line_for_several_tasks_of_inspect(folder):
    rows = [
        f"m{row},{task},{column},{each[column]}"
        for row, each in enumerate(KNOWN)
        for task in ("quiz", "facts")
        for column in range(3)
    ]
    (folder / "tasks.csv").write_text("\n".join(["model,dataset,sample,outcome", *rows]))
    evaluate(f"start tasks.csv --model=new --out=s --budget=6 {METHOD}")
    asked = evaluate("ask s --format=inspect").strip().split(",")
    assert sorted(asked) == [f"{task}:{n}" for task in ("facts", "quiz") for n in range(3)]
    assert evaluate("ask s --format=inspect --count=1").strip() == asked[0]  # of one task
    text = (folder / "tasks.csv").read_text().replace(",0,", ",q[0],")
    (folder / "odd.csv").write_text(text)
    evaluate(f"start odd.csv --model=new --out=odd --budget=6 {METHOD}")
    assert "q[0]' of" in evaluate("ask odd --format=inspect", 2)


OWNED = """
import os, signal, subprocess, sys, time
if os.path.exists("ends"):
    sys.exit(subprocess.run([sys.executable, "harness.py", *sys.argv[1:]]).returncode)
child = "import os, time; open('child', 'w').write(str(os.getpid())); time.sleep(60)"
subprocess.run([sys.executable, "-c", child])
"""

KILL = """
with open("paid", "a") as file:
    print(*samples, file=file)
if not os.path.exists("killed"):
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("killed", "x")
    os.kill(int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]), 9)
    import time
    time.sleep(2)
"""
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


def is_at_work(pid):
    """Whether a process has not ended; a dead one may wait for its parent."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextlib.contextmanager
def open_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def is_locked(descriptor):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def wait_until(holds):
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@NEEDS_PROC
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_harness_ends_with_the_command_that_has_started_it(folder, command, number):
    evaluate(f"start logs --model=new --out=s --budget=6 {METHOD}")
    (folder / "owned.py").write_text(OWNED)
    words = command.replace("harness.py", "owned.py").split()
    started = Started("nevis_stream.launch.evaluate", *words)
    wait_until(lambda: (folder / "child").exists() and (folder / "child").read_text())
    child = int((folder / "child").read_text())
    assert is_at_work(child)
    started.send_signal(number)
    status = started.wait()
    assert status == {signal.SIGTERM: 143, signal.SIGKILL: -9, signal.SIGINT: 130}[number]
    wait_until(lambda: not is_at_work(child))
    (folder / "ends").touch()
    assert "ended" in evaluate(" ".join(words))


@NEEDS_PROC
def test_logs_that_are_complete_are_told_by_the_next_start(folder, command):
    """The command is killed when the harness has made its logs, and before they are told."""
    for name in ("s", "other"):
        evaluate(f"start logs --model=new --out={name} --budget=6 {METHOD}")
    (folder / "slow").touch()
    (folder / "harness.py").write_text(PROGRAM + KILL)
    started = Started("nevis_stream.launch.evaluate", *command.split())
    assert started.wait() == -signal.SIGKILL
    with open_folder(folder / "out") as descriptor:
        wait_until(lambda: is_locked(descriptor))  # it is being ended; the next start waits
    assert not (folder / "out/asked-0001.untold.json").exists()
    assert "asked-0001" not in evaluate(command.replace("with-lm-eval s", "with-lm-eval other"))
    assert "asked-0001: 2 answers recorded" in evaluate(command)
    assert {*Counter((folder / "paid").read_text().split()).values()} == {2}  # once a session
    assert not list(folder.glob("out/*.json"))


def test_complete_logs_that_are_refused_are_not_in_the_way_of_the_next_start(folder, command):
    evaluate(f"start logs --model=new --out=s --budget=6 {METHOD}")
    (folder / "out/asked-0001").mkdir(parents=True)
    untold = folder / "out/asked-0001.untold.json"
    untold.write_text('{"session": "../s", "model": "new"}')
    assert "out/asked-0001" in evaluate(command, 2)
    assert "ended" in evaluate(command)


AS_INSPECT = """
import json, sys
words = dict(zip(sys.argv[1:], sys.argv[2:]))
values = json.load(open("values.json"))
with open(words["--log-dir"] + "/samples_quiz_2024-06-28T00-00-00.00001.jsonl", "w") as file:
    for each in map(int, words["--sample-id"].split(",")):
        line = {"doc_id": each, "filter": "none", "metrics": ["acc"], "acc": values[each]}
        print(json.dumps(line | {"doc_hash": f"content{each}"}), file=file)
"""


def test_a_list_that_is_too_long_for_one_command_is_run_in_several(folder, monkeypatch):
    (folder / "values.json").write_text(json.dumps(NEW.tolist()))
    (folder / "harness.py").write_text(AS_INSPECT)
    evaluate(f"start logs --model=new --out=s --budget=30 {METHOD}")
    monkeypatch.setattr(harnesses, "_LONGEST_WORD", 30)
    said = evaluate(f"with-inspect s -- {sys.executable} harness.py --log-dir=out")
    assert "ended" in said and "30 of 30" in said
    assert len([*folder.glob("out/asked-*")]) > 2


def test_a_word_is_as_long_as_the_system_takes_it(folder):
    rows = [
        f"m{row},quiz,{n:0100},{(row * n + row) % 3 > 0:d}" for row in (1, 2) for n in range(2000)
    ]
    (folder / "long.csv").write_text("\n".join(["model,dataset,sample,outcome", *rows]))
    evaluate("start long.csv --model=new --out=s --budget=1900 --method=random_mean")
    command = f"with-inspect s -- {sys.executable} -c pass --log-dir=out"
    assert "asked-0001: is neither" in evaluate(command, 2)  # it was started, and wrote no log


def write_tasks(folder, tasks, names=range(6)):
    rows = [
        [f"m{row}", task, str(name), str((row * number + row) % 3 % 2)]
        for row in range(3)
        for task in tasks
        for number, name in enumerate(names)
    ]
    with open(folder / "tasks.csv", "w", newline="") as file:
        csv.writer(file).writerows([["model", "dataset", "sample", "outcome"], *rows])


START = f"start tasks.csv --model=new --out=s --budget=3 {METHOD}"


@pytest.mark.parametrize(
    "task, reason",
    [
        ("evil/quiz.yaml", "as a file"),
        ("./evil", "as a file or folder"),
        ("/evil", "as a file or folder"),
        ("a,b", "as several"),
        ("quiz*", "as several"),
        ("qui[z]", "as several"),
        ("--model", "as an option"),
        ("-quiz", "as an option"),
        ("a\nb", "a new line"),
        ("a\tb", "a control character"),
        ("\u202equiz", "a control character"),
    ],
)
def test_a_task_that_a_harness_would_read_as_something_else_is_refused(folder, task, reason):
    write_tasks(folder, ["quiz", task])
    assert reason in evaluate(START, 2) and not (folder / "s/session.json").exists()


@pytest.mark.parametrize("task", ["openai/gsm8k", "gsm8k.yaml_2", "a-b", "Law: 1 + 1", "größe"])
def test_an_ordinary_task_is_asked(folder, task):
    write_tasks(folder, [task])
    evaluate(START)
    assert [*json.loads(evaluate("ask s --format=lm_eval"))] == [task]
    assert len(evaluate("ask s --format=inspect").split(",")) == 3


def test_data_sets_that_no_harness_counts_have_any_name(folder):
    write_tasks(folder, ["Law, civil", "BBH [3 shots]"], "abcdef")
    evaluate(START)
    assert len(json.loads(evaluate("ask s --format=json"))) == 3
    assert "has a comma" in evaluate("ask s --format=inspect", 2)


@pytest.mark.parametrize(
    "name, reason",
    [("quiz:3", "begins with the task"), ("QUIZ:3", "begins with the task"), ("a?", "a pattern")],
)
def test_an_id_that_inspect_would_read_as_another_is_refused_whichever_is_asked(
    folder, name, reason
):
    write_tasks(folder, ["quiz"], [*"abcdefghijklmnopqrstuvw", name])
    evaluate(START)
    assert name not in evaluate("ask s")
    assert reason in evaluate("ask s --format=inspect", 2)


def test_a_file_or_folder_is_not_run_in_the_place_of_a_task(folder, command):
    write_tasks(folder, ["quiz"])
    evaluate(START)
    (folder / "quiz").mkdir()
    (folder / "quiz/any.yaml").touch()
    assert "folder with yaml files" in evaluate(command, 2)
    (folder / "quiz/any.yaml").unlink()
    (folder / "broken").touch()
    assert "ended with status 3" in evaluate(command, 2)


def test_ids_are_printed_exactly(folder, monkeypatch):
    names = ["a,b", 'say "a"', "größe", "'a'", "a" * 200]
    write_tasks(folder, ["quiz"], names)
    evaluate(f"{START} --budget=5")
    wanted = {f"quiz/{each}" for each in names}
    assert {*json.loads(evaluate("ask s --format=json"))} == wanted
    assert {*evaluate("ask s").splitlines()} == wanted
    odd = ["a\nb", "\x1b[1mbold", "\u202erev"]  # of a session that an earlier version began
    write_tasks(folder, ["quiz"], odd)
    assert "a control character or a new line" in evaluate(START.replace("out=s", "out=t"), 2)
    monkeypatch.setattr(session_start, "check_names", lambda *_: None)
    evaluate(START.replace("out=s", "out=t"))
    assert {*json.loads(evaluate("ask t --format=json"))} == {f"quiz/{each}" for each in odd}
    for form in ("ids", "inspect"):
        assert "a control character or a new line" in evaluate(f"ask t --format={form}", 2)
    (folder / "told.json").write_text(json.dumps({f"quiz/{each}": 1 for each in odd}))
    assert "3 answers recorded" in evaluate("tell t told.json")
