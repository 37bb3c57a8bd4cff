"""`evaluate with-lm-eval` and `with-inspect`, with programs that do what the harnesses do; the real
ones are in `test_harnesses`.
"""

import json
import sys

import pytest

from tests.dynamic_evaluation.session_worker import KNOWN, NEW
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
