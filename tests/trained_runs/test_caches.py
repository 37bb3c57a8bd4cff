"""Filling caches from runs, and asking checkpoints: answers equal the run's own, and
nothing is asked twice.
"""

import shutil

import numpy as np
import pytest

from nevis_stream.active_testing.labelling.pools import PoolImages
from nevis_stream.additions.models import add_models
from nevis_stream.configs import run_config
from nevis_stream.configs.recorded import open_run
from nevis_stream.configs.tested_models import TestedModel, gather
from nevis_stream.dynamic_evaluation.estimates import compute_group_means
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.launch.evaluate import SUBCOMMANDS
from nevis_stream.launch.evaluate_commands import add
from nevis_stream.queries.oracle import Query
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import Checkpoint
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.trained_runs.caches import (
    CheckpointOracle,
    MovedCheckpointOracle,
    add_features,
    fill,
    find_task,
)
from nevis_stream.trained_runs.predictors import find_predictor
from nevis_stream.vocabulary import HELD_OUT_SPLITS

pytestmark = pytest.mark.usefixtures("embedded_once")


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory):
    """A run over two pico tasks, every trial kept."""
    return run_on(tmp_path_factory.mktemp("filling"), ("pico_textures", "pico_coins"))


def run_on(folder, datasets):
    """Runs a small network over tasks of pico."""
    lines = ["order,year,task_id,dataset_id,meta_split,source"]
    from nevis_stream.streams.named_streams import list_stream_rows

    rows = [row for row in list_stream_rows("pico")[1] if row["dataset_id"] in datasets]
    lines += [",".join(row[name] for name in lines[0].split(",")) for row in rows]
    (folder / "few.csv").write_text("\n".join(lines) + "\n")
    config = run_config.make_default("indep")
    config.update_from_flattened_dict(
        {
            "stream": str(folder / "few.csv"),
            "keep": "all",
            "network.name": "mlp",
            "network.hidden": (8,),
            "network.resolution": 8,
            "train.steps": 4,
            "train.validate_every": 2,
            "search.trials": 2,
        }
    )
    config = run_config.resolve(config)
    stream = load_stream(config.stream)
    run(
        config.build(),
        stream,
        folder / "run",
        config=run_config.to_json(config),
        keep="all",
    )
    return open_run(folder / "run", str(folder / "few.csv"))


def test_answers_equal_what_the_run_recorded(kept_run):
    predictor = kept_run.predictors[1]
    answers = kept_run.answer(predictor, kept_run.samples(predictor.task, ["test"]))
    record = next(
        r for r in kept_run.ledger.of_kind(PredictRecord) if r.task_id == predictor.task.task_id
    )
    recorded = next(r for r in [record, *record.others] if r.predictor_id == predictor.predictor_id)
    with np.load(kept_run.path / recorded.outcomes) as saved:
        assert answers.ids == saved["sample_id"].tolist()
        assert (answers.correct == saved["correct"]).all()
        assert np.array_equal(answers.confidence, saved["confidence"])
    assert answers.flops == recorded.flops["predict"][str(predictor.trial)]


def test_a_run_fills_one_cache_a_data_set_and_repeats_share_it(kept_run, tmp_path):
    filled = fill(kept_run, tmp_path, probabilities=True)
    assert {(f.cache.name, f.models) for f in filled} == {("pico_textures", 4), ("pico_coins", 2)}
    cache = EvaluationCache(tmp_path / "pico_textures")
    n = sum(
        len(part)
        for part in kept_run.samples(kept_run.stream.tasks[0], ["dev", "dev_test", "test"])
    )
    assert cache.shape == (4, n)
    assert set(np.unique(cache.matrix())) == {0, 1}
    facts = cache.models()[kept_run.predictors[0].predictor_id]
    assert facts["task"] == "pico_textures"
    assert facts["flops_per_sample"] > 0
    assert cache.probabilities(kept_run.predictors[0].predictor_id).shape == (
        n,
        kept_run.stream.tasks[0].num_classes,
    )
    again = fill(kept_run, tmp_path, probabilities=True)
    assert all(f.flops == 0 for f in again)


def test_what_the_run_recorded_is_read_and_not_run_again(kept_run, tmp_path, monkeypatch):
    fill(kept_run, tmp_path / "asked", probabilities=True)
    monkeypatch.setitem(vars(kept_run), "learner", None)  # no model can run
    filled = {each.cache.name: each for each in fill(kept_run, tmp_path / "read", splits=["test"])}
    assert (filled["pico_coins"].models, filled["pico_coins"].flops) == (2, 0)
    read, asked = (EvaluationCache(tmp_path / name / "pico_coins") for name in ("read", "asked"))
    models, samples = list(read.models()), read.samples()
    assert (read.matrix(models) == asked.matrix(models, samples)).all()
    assert np.array_equal(read.confidence(models), asked.confidence(models, samples))
    price = read.models()[models[0]]["flops_per_sample"]
    record = next(r for r in kept_run.ledger.of_kind(PredictRecord) if r.task_id == "pico_coins")
    flops = {each.predictor_id: each.flops for each in (record, *record.others)}
    assert price == sum(flops[models[0]]["predict"].values()) / record.n
    with pytest.raises(AttributeError):  # never recorded, so a model has to run
        fill(kept_run, tmp_path / "read", splits=["dev"])


def test_without_checkpoints_recorded_answers_fill_a_cache(kept_run, tmp_path):
    fill(kept_run, tmp_path / "asked", splits=["test"])
    bare = tmp_path / "run"
    shutil.copytree(kept_run.path, bare, ignore=shutil.ignore_patterns("checkpoints"))
    run = open_run(bare, str(kept_run.path.parent / "few.csv"))
    filled = fill(run, tmp_path / "read")
    assert {(f.cache.name, f.models, f.flops) for f in filled} == {
        ("pico_textures", 4, 0),
        ("pico_coins", 2, 0),
    }
    read, asked = (EvaluationCache(tmp_path / name / "pico_coins") for name in ("read", "asked"))
    assert read.samples() == asked.samples() and (read.matrix() == asked.matrix()).all()
    assert all("checkpoint" not in facts for facts in read.models().values())
    shutil.rmtree(bare / "outcomes")
    assert not fill(open_run(bare, str(kept_run.path.parent / "few.csv")), tmp_path / "read")[
        0
    ].models


def test_the_class_of_a_sample_is_its_group(kept_run, tmp_path):
    fill(kept_run, tmp_path, splits=["dev", "test"])
    cache, task = EvaluationCache(tmp_path / "pico_coins"), kept_run.stream.tasks[1]
    labels = np.concatenate(
        [kept_run.stream.splits(task)[split].labels for split in ("dev", "test")]
    )
    assert cache.facts().group.tolist() == [str(label) for label in labels]
    groups = compute_group_means(cache.facts(), cache.matrix())
    assert len(groups) == 1 + task.num_classes
    assert groups[1].means[0] == cache.matrix()[0][labels == int(groups[1].group)].mean()
    assert not cache.verify()


def test_probabilities_may_come_later(kept_run, tmp_path):
    fill(kept_run, tmp_path)
    cache, first = EvaluationCache(tmp_path / "pico_textures"), kept_run.predictors[0]
    assert cache.probabilities(first.predictor_id).shape[1] == 0
    assert sum(f.flops for f in fill(kept_run, tmp_path, probabilities=True)) > 0
    assert not np.isnan(cache.probabilities(first.predictor_id)).any()
    assert cache.probabilities(first.predictor_id).shape[1] == first.task.num_classes
    assert all(f.flops == 0 for f in fill(kept_run, tmp_path, probabilities=True))


def test_only_the_chosen_and_only_some_splits(kept_run, tmp_path):
    fill(kept_run, tmp_path, which="chosen", splits=["dev"])
    cache = EvaluationCache(tmp_path / "pico_coins")
    assert cache.shape == (1, len(kept_run.stream.splits(kept_run.stream.tasks[1])["dev"]))
    fill(kept_run, tmp_path, which="chosen", splits=["dev", "test"])
    assert not (cache.matrix() == 255).any()


def test_a_checkpoint_is_asked_exactly_the_wanted_samples(kept_run, tmp_path, monkeypatch):
    fill(kept_run, tmp_path)
    cache = EvaluationCache(tmp_path / "pico_coins")
    run = open_run(kept_run.path, str(kept_run.path.parent / "few.csv"))
    predictor = next(p for p in run.predictors if p.task.task_id == "pico_coins")
    read, ids = [], [*cache.samples(), "pico_coins/nowhere/1"]
    load = Checkpoint.load
    monkeypatch.setattr(Checkpoint, "load", lambda *args: read.append(args) or load(*args))
    oracle = CheckpointOracle(run, predictor, lambda columns: [ids[column] for column in columns])

    def asked(*columns):
        return oracle(Query(np.array([columns])))

    three = asked(200, 3, 77)
    wanted = [ids[column] for column in (200, 3, 77)]
    assert three.values.tolist() == cache.matrix([predictor.predictor_id], wanted).tolist()
    assert np.allclose(three.confidence, cache.confidence([predictor.predictor_id], wanted), 1e-3)
    flops = three.cost.flops
    few = run.samples(predictor.task, ["dev"])[0].take(np.arange(3))
    # one batch, though of several splits
    assert flops == run.answer(predictor, [few], small_batches=True).flops
    assert flops * 15 < run.answer(predictor, [few]).flops  # of 4 images, not of 64
    eight = asked(*range(8)).cost.flops
    assert asked(*range(5)).cost.flops == eight < asked(*range(9)).cost.flops
    with pytest.raises(BadInput, match="samples are unknown, for example 'pico_coins/nowhere/1'"):
        asked(len(ids) - 1)
    assert len(read) == 3  # once to ask, and once for each of the two answers compared with
    assert "digest" not in vars(run.stream)  # which would read all data of the stream


def test_an_image_of_a_multi_label_task_is_answered_and_kept_with_all_its_labels(tmp_path):
    run = run_on(tmp_path, ("pico_mosaic", "pico_textures"))
    first, new = (p for p in run.predictors if p.task.task_id == "pico_mosaic")
    fill(run, tmp_path / "caches")
    whole = EvaluationCache(tmp_path / "caches" / "pico_mosaic")
    cache = EvaluationCache(tmp_path / "few", create=True, about=whole.about)
    ids, each = whole.samples(), new.task.num_classes
    cache.append("known", ids, whole.matrix([first.predictor_id])[0])
    cache.append("other", ids, 1 - whole.matrix([new.predictor_id])[0])
    oracle = CheckpointOracle(run, new, cache.samples)
    account = add_models(cache, {new.predictor_id: oracle}, 8, "sort_and_search")[0]
    observed = cache.matrix([new.predictor_id])[0] != 255
    assert account.asked == 8 * each == observed.sum()
    assert (observed.reshape(-1, each).sum(axis=1) % each == 0).all()
    truth = whole.matrix([new.predictor_id])[0]
    assert (cache.matrix([new.predictor_id])[0][observed] == truth[observed]).all()
    images = run.samples(new.task, ["dev"])[0].take(np.arange(8))
    one_pass = run.answer(new, [images], small_batches=True).flops
    assert account.flops_spent - account.flops_method <= 2 * one_pass  # in at most two questions


def test_moved_runs_are_found_in_their_new_folder(kept_run, tmp_path):
    stream = str(kept_run.path.parent / "few.csv")
    (tmp_path / "before").mkdir()
    shutil.copytree(kept_run.path, tmp_path / "before" / "run")
    fill(open_run(tmp_path / "before" / "run", stream), tmp_path / "caches", splits=["dev"])
    (tmp_path / "before").rename(tmp_path / "now")
    cache = tmp_path / "caches" / "pico_textures"

    def add_samples(*run_dirs):
        values = next(each.flags for each in SUBCOMMANDS if each.name == "add-samples")
        words = [f"--cache={cache}", "--splits=test", "--budget=2", "--method=sort_and_search"]
        values(["add-samples", *words, f"--stream={stream}", f"--run_dir={','.join(run_dirs)}"])
        add.add_samples([], values)

    for run_dirs, message in (
        ([], "--run_dir=FOLDER"),
        ([str(tmp_path)], "neither a run directory nor a folder of them"),
    ):
        with pytest.raises(BadInput, match=message):
            add_samples(*run_dirs)
    add_samples(str(tmp_path / "now"))
    test = kept_run.samples(kept_run.stream.tasks[0], ["test"])[0].ids
    assert ((EvaluationCache(cache).matrix(samples=test) != 255).sum(axis=0) == 2).all()
    first, other = kept_run.predictors[:2]
    with pytest.raises(BadInput, match="another run"):
        MovedCheckpointOracle(
            other.predictor_id, first.checkpoint, first.trial, lambda path: kept_run, lambda _: test
        )(Query(np.array([[0]])))


def test_what_cannot_be_used_is_named(kept_run, tmp_path):
    with pytest.raises(BadInput, match="'tst'.*'test'"):
        kept_run.samples(kept_run.predictors[0].task, ["tst"])
    with pytest.raises(BadInput, match="'best'.*all, chosen"):
        fill(kept_run, tmp_path, which="best")
    with pytest.raises(BadInput, match="'train'.*dev, dev_test, pool, test"):
        fill(kept_run, tmp_path, splits=["train"])
    with pytest.raises(BadInput, match="'9'.*0, 1"):
        find_predictor(kept_run, kept_run.predictors[0].checkpoint, 9)
    EvaluationCache(tmp_path / "pico_coins", create=True, about={"dataset_id": "other"})
    with pytest.raises(BadInput, match="this cache contains data with dataset_id 'other'"):
        fill(kept_run, tmp_path)


def test_features_are_what_the_head_answers_from(kept_run, tmp_path):
    fill(kept_run, tmp_path)
    cache, predictor = EvaluationCache(tmp_path / "pico_coins"), kept_run.predictors[1]
    features, flops = add_features(cache, kept_run, kept_run, predictor)
    assert flops > 0 and cache.verify() == []
    assert features.shape == (cache.shape[1], 8) and np.array_equal(cache.features(), features)
    task = kept_run.stream.tasks[1]
    parts = kept_run.samples(task, HELD_OUT_SPLITS)
    assert cache.samples() == [sample for part in parts for sample in part.ids]
    head = kept_run.tree(predictor)["variables"]["params"]["head"]["Dense_0"]
    own = kept_run.samples(predictor.task, ["test"])
    direct, _ = kept_run.features(predictor, own[0])
    logits = (direct @ head["kernel"] + head["bias"])[:, : predictor.task.num_classes]
    likelihood = np.exp(logits - logits.max(axis=1, keepdims=True))
    answers = kept_run.answer(predictor, own).probabilities
    assert np.allclose(likelihood / likelihood.sum(axis=1, keepdims=True), answers, atol=1e-5)


def test_features_of_new_samples_are_added_and_those_of_another_backbone_refused(
    kept_run, tmp_path
):
    cache, (first, second) = tmp_path / "pico_coins", kept_run.predictors[:2]
    fill(kept_run, tmp_path, splits=["dev"])
    add_features(EvaluationCache(cache), kept_run, kept_run, first)
    fill(kept_run, tmp_path)
    assert np.isnan(EvaluationCache(cache).features()).any()
    features, _ = add_features(EvaluationCache(cache), kept_run, kept_run, first)
    assert np.allclose(EvaluationCache(cache).features(), features, atol=1e-5)
    with pytest.raises(BadInput, match="already have features, which are not those of"):
        add_features(EvaluationCache(cache), kept_run, kept_run, second)


def contradict(run):
    """Turns round all answers on one split."""
    record = next(r for r in Ledger(run).of_kind(PredictRecord) if r.task_id == "pico_coins")
    with np.load(run / record.outcomes) as saved:
        arrays = dict(saved)
    np.savez(run / record.outcomes, **arrays | {"correct": 1 - arrays["correct"]})


def reorder(run):
    lines = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    (run / "ledger.jsonl").write_text("".join([*lines[:2], lines[3], lines[2], *lines[4:]]))


def repeat(run):
    lines = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    (run / "ledger.jsonl").write_text("".join([*lines[:3], *lines[1:]]))


def rename_task(run):
    """Lets the ledger name a task that the stream does not have."""
    text = (run / "ledger.jsonl").read_text()
    (run / "ledger.jsonl").write_text(text.replace('"pico_coins"', '"pico_cones"'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (contradict, r"task 'pico_coins' have an error of 0\.\d+, but the ledger says 0\.\d+"),
        (reorder, "line 3: event 2, but event 1"),
        (rename_task, "its stream has .*'pico_cones'.*'pico_coins'"),
        (repeat, "line 4: event 0, but event 2"),
    ],
)
def test_a_run_that_contradicts_itself_fills_no_cache(kept_run, tmp_path, damage, message):
    shutil.copytree(kept_run.path, tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(BadInput, match=message):
        fill(open_run(tmp_path / "run", str(kept_run.path.parent / "few.csv")), tmp_path / "caches")


def run_on_arrays(folder, seed):
    """Runs a learner over a task of arrays, named as always, and returns the run."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(3, size=90)
    images = draw.integers(0, 200, (90, 8, 8)) + 18 * labels[:, None, None]
    folder.mkdir()
    np.savez(folder / "y.npz", images=images.astype(np.uint8), labels=labels)
    head = "order,year,task_id,dataset_id,meta_split,path"
    (folder / "mine.csv").write_text(f"{head}\n1,2020,y,y,test,y.npz\n")
    config = run_config.make_default("nearest_class_mean")
    config.stream = str(folder / "mine.csv")
    config = run_config.resolve(config)
    written = run_config.to_json(config)
    run(config.build(), load_stream(config.stream), folder / "run", config=written, keep="all")
    return open_run(folder / "run", str(folder / "mine.csv"))


def test_other_data_of_the_same_name_are_not_joined(tmp_path):
    """As after labels were corrected."""
    old, new = (run_on_arrays(tmp_path / name, seed) for seed, name in enumerate(("old", "new")))
    fill(old, tmp_path / "caches", splits=["dev"])
    cache = EvaluationCache(tmp_path / "caches" / "y")
    assert find_task(cache, old) == old.stream.tasks[0]
    for refused in (
        lambda: fill(new, tmp_path / "caches", splits=["dev"]),
        lambda: find_task(cache, new),  # a run that stands where that of the cache was
    ):
        with pytest.raises(BadInput, match="contains data with fingerprint"):
            refused()
    assert len(cache.models()) == 1
    (tested,), (other,) = old.predictors, new.predictors
    model = TestedModel("old", np.zeros((1, 3)), run=old, predictor=tested)
    pool = PoolImages([], old.samples(tested.task, ["dev"])[0].images)
    with pytest.raises(BadInput, match="data set 'y' has other data than that of the tested"):
        gather(model, pool, ["ensemble"], [new])
    dataset = new.stream.dataset(other.task)
    pool = PoolImages(cache.samples(), pool.images, dataset=dataset)
    with pytest.raises(BadInput, match="outcomes are on other data of the name 'y'"):
        gather(model, pool, ["outcomes"], cache=cache)
    pool = PoolImages(cache.samples(), pool.images, dataset=old.stream.dataset(tested.task))
    outcomes = gather(model, pool, ["outcomes"], cache=cache).outcomes
    assert outcomes.shape == (1, len(cache.samples()))


def test_a_cache_of_a_run_holds_no_absolute_path_and_moves_with_it(tmp_path):
    (tmp_path / "all").mkdir()
    kept = run_on_arrays(tmp_path / "all" / "mine", 0)
    fill(kept, tmp_path / "all" / "caches", splits=["dev"])
    cache = tmp_path / "all" / "caches" / "y"
    for file in cache.iterdir():
        assert str(tmp_path).encode() not in file.read_bytes()
    about = EvaluationCache(cache).about
    merged = EvaluationCache(tmp_path / "all" / "deeper" / "copy", create=True, about=about)
    merged.merge(EvaluationCache(cache))
    (tmp_path / "all").rename(tmp_path / "moved")
    for name in ("caches/y", "deeper/copy"):
        found = add._checkpoints(EvaluationCache(tmp_path / "moved" / name), [])
        (place,) = found.values()
        assert place[0] == tmp_path / "moved" / "mine" / "run" / "checkpoints" / "0000-y"
