"""Writes logs as lm-evaluation-harness does."""

import json

DATE = "2024-06-28T00-00-00.00001"


def write(
    folder,
    values,
    task="quiz",
    *,
    model="org/m",
    date=DATE,
    metric="acc",
    name=None,
    sizes=None,
    samples=None,
    **results,
):
    """Writes samples and results of one run, and returns the samples file.

    Args:
      folder: of both files.
      values: of the samples, or by `doc_id`.
      task, model, date, metric: names.
      name: of the results file, as with --output_path; None: results_DATE.json.
      sizes: original and effective number of samples.
      samples: content of each sample, by `doc_id`.
      results: further parts of the results file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    values = values if isinstance(values, dict) else dict(enumerate(values))
    lines = []
    for sample, value in values.items():
        content = (samples or {}).get(sample, f"content{sample}")
        line = {"doc_id": sample, "filter": "none", "metrics": [metric], metric: value}
        lines.append(json.dumps(line | {"doc_hash": content}) + "\n")
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text("".join(lines))
    results = {"model_name": model, **results}
    if sizes:
        results["n-samples"] = {task: dict(zip(("original", "effective"), sizes, strict=True))}
    (folder / f"{name or 'results'}_{date}.json").write_text(json.dumps(results))
    return path
