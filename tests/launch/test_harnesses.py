"""Sessions with the real harnesses, where they are installed; last run by hand with lm_eval 0.4.13
and inspect_ai 0.3.285.
"""

import json
import os
import shutil
import subprocess

import pytest

from tests.dynamic_evaluation.session_worker import KNOWN
from tests.evaluation_cache import harness_logs
from tests.launch.test_evaluate_sessions import evaluate

METHOD = "--method=stratified_mean"
TASK = """
task: toy
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: answer
doc_to_choice: choices
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(board):
    evaluate(f"start {board} --model=new --out=s --budget=10 {METHOD}")


def write_board():
    lines = [
        f"m{row},quiz,{column},{value}"
        for row, each in enumerate(KNOWN)
        for column, value in enumerate(each[:30])
    ]
    with open("board.csv", "w") as file:
        file.write("\n".join(["model,dataset,sample,outcome", *lines]))


def test_inspect_runs_the_samples_that_are_asked(folder):
    pytest.importorskip("inspect_ai")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match

    write_board()
    start("board.csv")
    wanted = evaluate("ask s --format=inspect").strip().split(",")
    output = ModelOutput.from_content("mockllm/model", "yes")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    samples = [
        Sample(id=str(number), input=f"Is {number} even?", target=["yes", "no"][number % 2])
        for number in range(30)
    ]
    model = get_model("mockllm/model", custom_outputs=[output] * 30)
    quiz = Task(name="quiz", dataset=MemoryDataset(samples), scorer=match(), model=model)
    (log,) = eval(quiz, sample_id=wanted, log_dir=str(folder / "logs"), display="none")
    assert log.status == "success"
    assert "10 answers recorded" in evaluate("tell s logs")
    assert "ended" in evaluate("status s")
    answers = json.loads((folder / "s/answers.jsonl").read_text())["answers"]["new"]
    assert answers == {f"quiz/{each}": float(int(each) % 2 == 0) for each in wanted}


@pytest.mark.skipif(not shutil.which("lm_eval"), reason="lm_eval is not installed")
def test_lm_eval_runs_the_samples_that_are_asked(folder, monkeypatch):
    docs = [
        {"question": f"Is {n} even?", "choices": ["yes", "no"], "answer": n % 2} for n in range(30)
    ]
    (folder / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    (folder / "toy.yaml").write_text(TASK.format(file=folder / "docs.jsonl"))

    def lm_eval(out, *words):
        subprocess.run(
            [*["lm_eval", "run", "--model", "dummy", "--tasks", "toy", "--log_samples"], *words]
            + ["--include_path", str(folder), "--output_path", out],
            env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf")},
            check=True,
            capture_output=True,
        )

    lm_eval("full")
    lines = next(folder.glob("full/*/samples_toy_*")).read_text().splitlines()
    hashes = {line["doc_id"]: line["doc_hash"] for line in map(json.loads, lines)}
    for row, values in enumerate(KNOWN):
        path = folder / f"logs/{row}"
        harness_logs.write(path, values[:30].tolist(), "toy", model=f"m{row}", samples=hashes)
    start("logs")
    asked = json.loads(evaluate("ask s --format=lm_eval"))
    lm_eval("unsorted", "--samples", json.dumps({"toy": asked["toy"][::-1]}))
    assert "numbers them anew" in evaluate("tell s unsorted", 2)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = f"lm_eval run --model dummy --include_path {folder} --output_path new"
    assert "ended" in evaluate(f"with-lm-eval s -- {words}")
