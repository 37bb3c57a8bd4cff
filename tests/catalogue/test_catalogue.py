"""The catalogue of NEVIS'22 and the streams made of it, pinned by a golden file and compared with
the reference tables.
"""

import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nevis_stream import catalogue
from nevis_stream.datasets import raw_formats, sources
from nevis_stream.datasets.preparation import fetch
from nevis_stream.errors import BadInput
from nevis_stream.streams.named_streams import list_stream_rows, load_stream

GOLDEN = Path(__file__).with_name("golden_streams.txt")
REFERENCE = catalogue.find_shared_directory() / "reference"
PINNED = (
    *catalogue.COMPUTED,
    "random_40@1",
    "shuffled@1",
    "shuffled_within_year@1",
    "split_cifar100",
    "split_mnist",
    "local25",
    "local26",
    "local25_hub",
)
TASKS = catalogue.read_carried_table("nevis22_tasks")


def described(name):
    """One line per stream: every task with its order and year."""
    return f"{name}: " + " ".join(
        f"{r['order']}/{r['year']}/{r['task_id']}" for r in list_stream_rows(name)[1]
    )


def test_streams_are_as_pinned():
    """After an intended change, write the file again with `python -m
    tests.catalogue.test_catalogue`.
    """
    assert [described(name) for name in PINNED] == GOLDEN.read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "added", "place", "meta_split"),
    [
        ("local26", "tiny_imagenet", "tiny_imagenet", "test"),
        ("local25_hub", "imagenet_stand_in", "imagenet", "train"),
    ],
)
def test_tiny_imagenet_joins_local25_at_its_own_place_or_at_that_of_imagenet(
    name, added, place, meta_split
):
    full = {row["task_id"]: row for row in list_stream_rows("full")[1]}
    rows = list_stream_rows(name)[1]
    (own,) = (row for row in rows if row["dataset_id"] == "tiny_imagenet")
    assert (own["task_id"], own["meta_split"]) == (added, meta_split)
    assert own["year"] == full[place]["year"]
    places = [int(full[place if row is own else row["task_id"]]["order"]) for row in rows]
    assert places == sorted(places)
    others = [{**row, "order": ""} for row in rows if row is not own]
    assert others == [{**row, "order": ""} for row in list_stream_rows("local25")[1]]


@pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"no reference tables at {REFERENCE}")
def test_published_streams_equal_the_reference_tables():
    published: dict[str, list] = {}
    for row in catalogue.read_csv(REFERENCE / "streams.csv"):
        published.setdefault(row["variant"].lower(), []).append(
            (row["order"], row["year"], row["dataset_id"], row["meta_split"])
        )
    compared = [name for name in published if not name.endswith("_reference_code")]
    assert len(compared) == 10
    for name in compared:
        rows = list_stream_rows(name)[1]
        assert [
            (r["order"], r["year"], r["dataset_id"], r["meta_split"]) for r in rows
        ] == published[name], name


@pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"no reference tables at {REFERENCE}")
@pytest.mark.parametrize(
    ("carried", "reference"),
    [("nevis22_tasks", "nevis_tasks"), ("nevis22_datasets", "dataset_sources")],
)
def test_tables_have_the_reference_columns_and_values(carried, reference):
    theirs = catalogue.read_csv(REFERENCE / f"{reference}.csv")
    assert len(theirs) == len(catalogue.read_carried_table(carried))
    for ours, row in zip(catalogue.read_carried_table(carried), theirs, strict=True):
        assert {key: ours[key] for key in row} == row


def test_106_tasks():
    assert Counter(task["meta_split"] for task in TASKS) == {"train": 79, "test": 27}
    assert (
        len({task["dataset_id"] for task in TASKS}) == 97 == len(catalogue.read_nevis22_datasets())
    )
    assert sum(bool(task["repeat_of"]) for task in TASKS) == 9
    assert [int(task["index"]) for task in TASKS] == list(range(1, 107))
    assert len({task["canonical_id"] for task in TASKS}) == 106
    assert all((int(task["year"]) >= 2019) == (task["meta_split"] == "test") for task in TASKS)


def test_every_data_set_can_be_read_from_files_that_are_named():
    for name in catalogue.read_nevis22_datasets():
        plan = fetch.fetch_plan(name)
        assert (
            plan.sources and plan.advice and plan.state in ("downloadable", "to download yourself")
        ), name
        assert len({source.file for source in plan.sources}) == len(plan.sources)
        for source in plan.sources:
            assert source.url.startswith(("http://", "https://", "ftp://", "kaggle:")), (
                name,
                source,
            )
            assert len(source.md5) in (0, 32) and "<" not in source.file + source.url
        assert all(
            read["reader"] in raw_formats.READERS
            for read in catalogue.read_file_layouts()[name]["read"]
        )
    variants_of = {
        name: row["like"] for name, row in catalogue.read_file_layouts().items() if "like" in row
    }
    assert len(variants_of) == 7 and all(
        catalogue.read_file_layouts()[name]["note"] for name in variants_of
    )


def test_ablations_have_the_sizes_of_table_5():
    sizes = {
        "full": 79,
        "no_imagenet": 78,
        "large_dataset_only": 40,
        "random_40": 40,
        "major_domain_only": 43,
        "random_43": 43,
    }
    sizes |= dict.fromkeys(("remove_first_30", "remove_last_30", "remove_random_30"), 49)
    for name, count in sizes.items():
        rows = list_stream_rows(name)[1]
        assert Counter(row["meta_split"] for row in rows) == {"train": count, "test": 27}


@pytest.mark.parametrize("name", ["shuffled", "shuffled_within_year"])
def test_shuffling_keeps_every_task(name):
    full = {row["task_id"]: (row["year"], row["meta_split"]) for row in list_stream_rows("full")[1]}
    orders = set()
    for seed in range(4):
        rows = list_stream_rows(f"{name}@{seed}")[1]
        assert {row["task_id"]: (row["year"], row["meta_split"]) for row in rows} == full
        orders.add(tuple(row["task_id"] for row in rows))
        years = [int(row["year"]) for row in rows]
        assert (years == sorted(years)) == (name == "shuffled_within_year")
    assert len(orders) == 4 and list_stream_rows(name)[1] == list_stream_rows(f"{name}@0")[1]


def test_split_imagenet_has_100_disjoint_tasks():
    rows = list_stream_rows("split_imagenet")[1]
    assert len(rows) == 100 and sum(row["meta_split"] == "test" for row in rows) == 20
    classes = [set(sources._parse_classes(row["source"].partition(":")[2])[1]) for row in rows]
    assert all(len(ids) == 10 for ids in classes) and set().union(*classes) == set(range(1000))
    drawn = [
        sources._parse_classes(row["source"].partition(":")[2])[1]
        for row in list_stream_rows("split_cifar100_by_20@3")[1]
    ]
    assert (
        len(drawn) == 5
        and sorted(sum(drawn, [])) == list(range(100))
        and sum(drawn, []) != list(range(100))
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fulll", "'full'"),
        ("full@3", "full is not random, so it takes no seed; streams that do: remove_random_30"),
        ("random_40@x", "the seed after @ is 'x', not a whole number"),
        ("split_cifar1000", "'cifar1000'.*'cifar100'"),
        ("split_voc2007", "voc2007 is multi-label"),
        ("split_mnist_by_9", "9 classes per task; mnist has 10, so valid are 2..5"),
    ],
)
def test_wrong_names_are_explained(name, message):
    with pytest.raises(BadInput, match=message):
        load_stream(name)


def test_missing_data_are_an_error_that_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("NEVIS_STREAM_SHARED", str(tmp_path))
    monkeypatch.setenv("NEVIS_STREAM_DATA", str(tmp_path))
    with pytest.raises(BadInput) as caught:
        load_stream("short")
    message = str(caught.value)
    assert "28 data sets are not on this machine" in message and "prepare --stream=short" in message
    assert (
        "coil100 (downloadable): python -m launch.data prepare --task=coil100" in message
        and "short+partial" in message
    )
    with pytest.raises(BadInput, match="the data of all its 29 tasks are missing"):
        load_stream("short+partial")


def test_the_list_is_quick_and_loads_no_framework():
    """`list` takes less than 2 CPU seconds, in the best of three processes, since other work may
    run at the same time.
    """
    program = (
        "import sys; sys.argv = ['data', 'list', '--stream=full', '--format=csv']; import runpy\n"
    )
    program += (
        "try: runpy.run_module('launch.data', run_name='__main__')\nexcept SystemExit: pass\n"
    )
    program += (
        "print([n for n in ('jax', 'tensorflow_datasets', 'tensorflow', 'matplotlib', 'scipy') if n"
        " in sys.modules])"
    )
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]" and len(lines) == 108
    assert lines[0].startswith(
        "index,order,year,canonical_id,dataset_id,name,kind,num_classes,domain,size,meta_split"
    )
    assert min(seconds) < 2


if __name__ == "__main__":
    GOLDEN.write_text("".join(described(name) + "\n" for name in PINNED))
