"""What is kept of the arguments of a log: no credential, and digests of what is not known."""

import dataclasses
import hashlib
import json
import shutil

import pytest

from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.evaluation_cache import EvaluationCache, records
from nevis_stream.evaluation_cache.additions import append
from nevis_stream.evaluation_cache.arguments import format_facts, is_credential, redact
from nevis_stream.evaluation_cache.boards import make_cache_board, read_board
from nevis_stream.evaluation_cache.exchange import export_npz, import_file
from nevis_stream.evaluation_cache.integrity import list_credentials
from tests import forked
from tests.dynamic_evaluation.test_additions import MODEL
from tests.evaluation_cache.harness_logs import DATE, write


def command(*words):
    """Runs `evaluate` and returns what it printed."""
    return forked.run("launch.evaluate", *words)


def read_all(folder):
    """Returns the bytes of all files in a folder, and their names."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return b"".join(str(each.relative_to(folder)).encode() + each.read_bytes() for each in files)


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "hf_token",
        "auth_token",
        "use_auth_token",
        "HF_TOKEN",
        "tokens",
        "api_key",
        "apikey",
        "openaiApiKey",
        "X-Api-Key",
        "keys",
        "accessKeyId",
        "secret",
        "client_secret",
        "aws_secret_access_key",
        "password",
        "db_passwd",
        "pwd",
        "header",
        "default_headers",
        "HTTP-Header",
        "bearer",
        "Authorization",
        "oauth2",
        "cookies",
        "credentials",
        "jwt",
    ],
)
def test_names_of_credentials(name):
    assert is_credential(name) and format_facts({name: "SECRET"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer",
        "max_tokens",
        "max_gen_toks",
        "add_bos_token",
        "eos_token",
        "stop_token_ids",
        "think_end_token",
        "skip_special_tokens",
        "monkey",
        "author",
        "keyboard",
        "num_fewshot",
    ],
)
def test_names_of_no_credentials(name):
    assert not is_credential(name) and format_facts({name: "7"})


@pytest.mark.parametrize(
    "text, kept",
    [
        ("https://me:SECRET@host/v1", "https://host/v1"),
        ("https://me:SEC/RET@host", "https://host"),
        ("https://SECRET@host/v1", "https://host/v1"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("https://host/v1?n=2&api_key=SECRET&m=3", "https://host/v1?n=2&api_key=…&m=3"),
        ("HF_TOKEN=SECRET PORT=80", "HF_TOKEN=… PORT=80"),
        ('{"n": 1, "token": "SECRET"}', '{"n": 1, "token": …}'),
        ("Authorization: Bearer SECRET", "Authorization: Bearer …"),
        ("pretrained__org__m,token__SECRET_quiz.jsonl", "pretrained__org__m,token__…"),
        (f"wrong key: sk-{'SECRET' * 9}", "wrong key: …"),
        ("org/monkey:7b", "org/monkey:7b"),
        ("m [token=#1]", "m [token=#1]"),
    ],
)
def test_credentials_in_texts(text, kept):
    assert redact(text) == kept == redact(kept)


ARGUMENTS = {
    "token": "SECRET",
    "use_auth_token": "SECRET",
    "header": {"Authorization": "Bearer SECRET"},
    "base_url": "https://me:SECRET@host/v1",
    "proxy": "http://me:SECRET@proxy",
    "env": "HF_TOKEN=SECRET",
    "revision": "https://me:SECRET@host/r",
    "foo": "bar",
}


def make_text(secret):
    pairs = (f"{k}={v}" for k, v in ARGUMENTS.items() if isinstance(v, str))
    return ",".join(["pretrained=org/m", *pairs]).replace("SECRET", secret)


def make_object(secret):
    return json.loads(json.dumps(ARGUMENTS).replace("SECRET", secret))


@pytest.mark.parametrize("arguments", [make_text, make_object])
def test_no_credential_of_a_harness_is_kept_or_printed(tmp_path, arguments):
    """Logs that differ only in credentials are of one model, together and one after the other."""
    for place, secret in enumerate(("SECRET1", "SECRET2", "SECRET3")):
        nested = {"extra_body": {"api_key": secret, "n": 2}, "stop": [f"https://u:{secret}@h"]}
        folder = tmp_path / f"log{place}"
        write(
            folder,
            [1, 0, 1],
            date=DATE.replace("06", f"0{place + 1}"),
            model=f"https://u:{secret}@host/m",
            config={"model_args": arguments(secret), "gen_kwargs": {"api_key": secret}},
            configs={"quiz": {"generation_kwargs": nested, "metadata": {"token": secret}}},
        )
        shutil.copytree(folder, tmp_path / "all" / folder.name)
    said = command("import", tmp_path / "log0", f"--cache={tmp_path / 'one'}").stdout
    said += command("import", tmp_path / "log1", f"--cache={tmp_path / 'one'}").stdout
    said += command("import", tmp_path / "all", f"--cache={tmp_path / 'two'}").stdout
    said += command("verify", f"--cache={tmp_path / 'two'}").stdout
    assert "host/m" in said and "SECRET" not in said
    for name in ("one", "two"):
        cache = EvaluationCache(tmp_path / name)
        assert list(cache.models()) == ["https://host/m"]
        kept = json.dumps(cache.models())
        assert "SECRET" not in kept and '"bar"' not in kept and "foo" in kept
        export_npz(cache, tmp_path / f"{name}.npz")
    session = Session.start(
        tmp_path / "session", read_board(tmp_path / "one"), 2, method="random_mean"
    )
    assert session.ask()
    for name in ("one", "two", "session"):
        assert b"SECRET" not in read_all(tmp_path / name)


def test_what_is_not_known_keeps_variants_apart(tmp_path):
    for place, text in enumerate(("bar", "baz")):
        config = {"model_args": f"pretrained=org/m,foo={text},token=SECRET{place}"}
        write(tmp_path / text, [1, place], date=DATE, config=config)
    names = [f"org/m [foo=#{hashlib.sha256(t.encode()).hexdigest()[:8]}]" for t in ("bar", "baz")]
    import_file(tmp_path / "cache", [tmp_path / "bar", tmp_path / "baz"])
    assert sorted(EvaluationCache(tmp_path / "cache").models()) == sorted(names)


def test_no_credential_of_other_programs_is_kept(tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    arguments = "base_url=http://u:SECRET@h,token=SECRET"
    lines = json.dumps([{"doc_id": k, "acc": k % 2} for k in range(4)])
    (old / "base_url__http:,token__SECRET_quiz.jsonl").write_text(lines)
    results = {"config": {"model_args": arguments}, "results": {"quiz": {"acc,none": 0.1}}}
    (old / "results.json").write_text(json.dumps(results))
    helm = tmp_path / "mmlu:subject=law,api_key=SECRET,model=org_m"
    helm.mkdir()
    stats = [{"name": {"name": "exact_match"}, "mean": 1.0}]
    entries = [{"instance_id": f"id{k}", "train_trial_index": 0, "stats": stats} for k in range(3)]
    (helm / "per_instance_stats.json").write_text(json.dumps(entries))
    ever = tmp_path / "ever.jsonl"
    line = {"evaluation_name": "quiz", "sample_id": "1", "evaluation": {"score": 1.0}}
    ever.write_text(json.dumps({"model_id": "https://u:SECRET@h/m"} | line) + "\n")
    for number, path in enumerate((old, helm, ever)):
        cache = tmp_path / f"cache{number}"
        said = import_file(cache, path).remarks
        assert b"SECRET" not in read_all(cache) and "SECRET" not in "".join(said)
    assert EvaluationCache(tmp_path / "cache1").samples()[0] == "mmlu:subject=law/id0"


def test_no_credential_of_inspect_is_kept(tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    from inspect_ai.model import GenerateConfig, ModelConfig
    from inspect_ai.scorer import Score

    for name, secret in (("a", "SECRET1"), ("b", "SECRET2")):
        spec = log.EvalSpec(
            created="2024-06-28T00:00:00+00:00",
            task="quiz",
            dataset=log.EvalDataset(samples=1),
            model="openai/m",
            model_args={"token": secret, "foo": "bar"},
            task_args={"password": secret, "options": {"key": secret, "n": 2}},
            metadata={"token": secret},
            model_generate_config=GenerateConfig(extra_headers={"Authorization": secret}),
            model_roles={"grader": ModelConfig(model="org/judge", args={"api_key": secret})},
            config=log.EvalConfig(),
        )
        plan = log.EvalPlan(
            steps=[log.EvalPlanStep(solver="ask", params={"api_key": secret, "prompt": "?"})]
        )
        error = {"message": f"wrong token={secret}", "traceback": "", "traceback_ansi": ""}
        samples = [
            log.EvalSample(
                id=1, epoch=1, input="a", target="b", scores={"match": Score(value="C")}
            ),
            log.EvalSample(id=2, epoch=1, input="c", target="d", error=error),
        ]
        content = log.EvalLog(status="success", eval=spec, plan=plan, samples=samples)
        (tmp_path / name).mkdir()
        path = tmp_path / name / "2024-06-28T00-00-00_quiz_x.json"
        log.write_eval_log(content, str(path))
        import_file(tmp_path / "cache", path)
    cache = EvaluationCache(tmp_path / "cache")
    assert list(cache.models()) == ["openai/m"]
    assert cache.models()["openai/m"]["tasks"]["quiz"]["grader"] == "org/judge"
    assert b"SECRET" not in read_all(tmp_path / "cache")


def put_back(cache, row, variant, **settings):
    """Gives a model the facts that earlier versions kept of its log."""
    with cache.index.writing() as db:
        (text,) = db.execute("SELECT provenance FROM models WHERE number = ?", [row]).fetchone()
        facts = json.loads(text)
        (task,) = facts["tasks"].values()
        task |= settings
        facts |= {"variant": variant} if variant else {}
        text = json.dumps(facts)
        db.execute("UPDATE models SET provenance = ? WHERE number = ?", [text, row])
        check = [hashlib.sha256(text.encode()).digest(), row]
        db.execute("UPDATE checks SET digest = ? WHERE model = ?", check)


def make_earlier(tmp_path):
    """Returns a cache as an earlier version made it of two logs, and a log of the same model."""
    config = {"model_args": "pretrained=org/m,foo=bar", "limit": None}
    path = write(tmp_path / "a", [1, 0, 1], config=config)
    import_file(tmp_path / "earlier", path)
    cache = EvaluationCache(tmp_path / "earlier")
    name, facts = "org/m [token=SECRET2]", cache.models()["org/m"]
    cache.append(name, cache.samples(), [1, 1, 0], provenance=facts)
    put_back(cache, 0, {}, token="SECRET1", foo="bar")
    put_back(cache, 1, {"token": "SECRET2"}, token="SECRET2", foo="bar")
    cache.append("other", cache.samples(), [0, 0, 0])
    line = f"token on quiz: SECRET1 (org/m), SECRET2 ({name})"
    with cache.index.writing() as db:
        records.add_imports(db, [records.Imported("b", (line,))])
    append(cache.directory, dataclasses.replace(MODEL, name=name))
    return cache, path


def test_a_clear_value_of_an_earlier_version_is_its_digest(tmp_path):
    cache, path = make_earlier(tmp_path)
    table = import_file(cache, path)
    assert table.models == ["org/m"] and len(cache.models()) == 3
    assert "token" not in "".join(table.remarks)
    other = write(tmp_path / "c", [1, 1, 1], config={"model_args": "pretrained=org/m,foo=else"})
    (name,) = import_file(cache, other).models
    assert name.startswith("org/m [foo=#")


def test_verify_names_what_an_earlier_version_kept_and_merge_takes_it_out(tmp_path):
    cache, _ = make_earlier(tmp_path)
    said = command("verify", f"--cache={cache.directory}")
    assert said.returncode == 0 and "SECRET" not in said.stdout
    assert "model 'org/m [token=#1]': an earlier version kept a credential" in said.stdout
    (advice,) = [line for line in said.stdout.splitlines() if "evaluate merge" in line]
    words = advice.partition("evaluate ")[2].partition(";")[0].split()
    for _ in range(2):
        done = command(*[word.replace("NEW_DIR", str(tmp_path / "new")) for word in words])
        assert done.returncode == 0 and "SECRET" not in done.stdout, done.stderr
    new = EvaluationCache(tmp_path / "new")
    assert list(new.models()) == ["org/m", "org/m [token=#1]", "other"]
    assert new.matrix().tolist() == cache.matrix().tolist()
    assert list_credentials(new) == [] and new.verify() == []
    assert b"SECRET" not in read_all(tmp_path / "new")
    assert "org/m [token=#1]" in command("board", tmp_path / "new").stdout


def test_a_cache_and_a_session_hold_no_absolute_path(tmp_path):
    log = write(tmp_path / "logs" / "a", [1, 0, 1], config={"model_args": "pretrained=org/m"})
    (log.parent / "samples_old.jsonl").write_text("{}")
    write(tmp_path / "logs" / "b", [1, 1, 1], model="org/n")
    import_file(tmp_path / "caches" / "one", tmp_path / "logs")
    board = EvaluationCache(tmp_path / "caches" / "one")
    session = Session.start(
        tmp_path / "sessions" / "new", make_cache_board(board), 2, method="random_mean"
    )
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(dict.fromkeys(session.ask(), 1)))
    assert command("tell", session.directory, answers).returncode == 0
    for folder in ("caches", "sessions"):
        assert str(tmp_path).encode() not in read_all(tmp_path / folder)
    board.remove(["org/m"], None, "wrong")
    assert "wrong" in session.corrections()[0]
    moved = tmp_path / "moved"  # both go together
    moved.mkdir()
    for folder in ("caches", "sessions"):
        shutil.move(tmp_path / folder, moved / folder)
    assert "wrong" in Session(moved / "sessions" / "new").corrections()[0]
