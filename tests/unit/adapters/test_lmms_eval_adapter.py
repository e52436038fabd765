"""The pair for lmms-eval; with the real package where it is installed."""

import importlib.util
import math
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from types import SimpleNamespace

import pytest

import suisei
from suisei.adapters.lmms_eval import make_pair
from suisei.adapters.rows import empty_score, row_metric
from suisei.errors import ConfigError, DataError


def docs_of(given):
    columns = zip(given.references, given.images, strict=True)
    return [
        {"answer": references, "image": image, "question_id": n}
        for n, (references, image) in enumerate(columns)
    ]


def test_scores_equal_the_commands(given, command_scores, model_folder):
    spec = f"suisei:{model_folder}"
    process, aggregate = make_pair(spec)
    found = [process(doc, [caption]) for doc, caption in zip(docs_of(given), given.captions, strict=True)]
    expected = command_scores(spec, window=1)
    assert [one["suisei"] for one in found] == pytest.approx(expected, abs=1e-9)
    assert aggregate([one["suisei"] for one in found]) == pytest.approx(
        sum(expected) / len(expected), abs=1e-9
    )


def test_the_default_pair_is_of_the_packages_model(packaged):
    process, aggregate = make_pair()
    found = process({"caption": ["a dog is running"]}, ["a dog runs"])
    expected = suisei.load().score(["a dog runs"], [["a dog is running"]])[0]
    assert found == {"suisei": pytest.approx(expected, abs=1e-9)}
    assert aggregate([0.25, 0.75]) == 0.5
    assert math.isnan(aggregate([]))


@pytest.mark.parametrize("field", ["caption_str", "sentences", "sentence", "enCap", "chCap"])
def test_references_are_found_where_tasks_keep_them(field):
    process, _ = make_pair("rouge-l")
    assert process({field: ["a dog"], "image": None}, ["a dog"]) == {"rouge-l": pytest.approx(1)}


def test_scores_by_the_image_alone_are_told_once(given, model_folder):
    process, _ = make_pair(f"suisei:{model_folder}")
    doc = {"id": 1, "texts": ["a dog"], "image": given.images[0]}
    with pytest.warns(UserWarning, match="images alone; the document's fields are id, texts, image") as told:
        alone = [process(doc, ["a dog runs"]) for _ in range(2)]
    assert len(told) == 1
    assert alone == [process({"answer": [], "image": given.images[0]}, ["a dog runs"])] * 2


@pytest.mark.parametrize(
    ("name", "doc", "lacks"),
    [
        ("suisei:{}", {"id": 1, "texts": ["a dog"]}, "image and no references"),
        ("rouge-l", {"id": 1, "image": "a.png"}, "references"),
        ("clip-s", {"id": 1, "answer": ["a dog"]}, "image"),
    ],
)
def test_documents_without_what_a_score_needs_are_refused_at_the_first(name, doc, lacks, model_folder):
    process, _ = make_pair(name.format(model_folder))
    message = f"no {lacks} to score by; the document's fields are {', '.join(doc)}; references are looked for"
    with pytest.raises(DataError, match=message):
        process(doc, ["a dog"])


@pytest.mark.filterwarnings("error")
def test_a_metric_without_references_has_no_warning_of_them():
    process, _ = make_pair("incomplete-ending")
    assert process({"image": None}, ["a dog"]) == {"incomplete-ending": 0}


def test_empty_answers_count_and_rows_without_references_do_not():
    process, aggregate = make_pair("rouge-l", references="captions", image=None)
    rows = [
        ({"captions": ["a dog"]}, ["a dog"]),
        ({"captions": ["a dog"]}, [""]),
        ({"captions": []}, ["a dog"]),
    ]
    scores = [process(doc, results, full_docs=None)["rouge-l"] for doc, results in rows]
    assert scores[:2] == [pytest.approx(1), 0]
    assert math.isnan(scores[2])
    assert aggregate(scores) == pytest.approx(0.5)
    with pytest.raises(DataError, match="no field 'captions'; its fields are answer"):
        process({"answer": ["a"]}, ["a"])
    with pytest.raises(DataError, match="rouge-l has no score for any of 1 row"):
        aggregate([math.nan])


def test_an_empty_answer_is_the_worst_by_a_distance_too():
    process, aggregate = make_pair("incomplete-ending", image=None)
    scores = [
        process({"captions": ["a dog"]}, [text])["incomplete-ending"] for text in ("a dog with", "a dog", "")
    ]
    assert scores == [1, 0, 1]
    assert aggregate(scores) == pytest.approx(2 / 3)
    distance = SimpleNamespace(name="recap-latent", higher_is_better=False, largest=None)
    assert math.isnan(empty_score(distance))


@pytest.mark.parametrize(("name", "why"), [("cider", "learns weights"), ("bleu-4", "no mean of scores")])
def test_metrics_of_a_whole_corpus_are_refused(name, why):
    with pytest.raises(ConfigError, match=why):
        make_pair(name)[0]({"answer": ["a"]}, ["a"])


@pytest.mark.skipif(importlib.util.find_spec("lmms_eval") is None, reason="lmms-eval is not installed")
def test_the_real_task_calls_the_pair(given, command_scores, model_folder, tmp_path, monkeypatch):
    import datasets
    from lmms_eval.api.task import ConfigurableTask
    from lmms_eval.evaluator_utils import TaskOutput

    process, aggregate = make_pair(f"suisei:{model_folder}")
    rows = [{**doc, "image": doc["image"] or ""} for doc in docs_of(given)]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: {"test": datasets.Dataset.from_list(rows)})

    def with_image(doc, results):
        return process({**doc, "image": doc["image"] or None}, results)

    task = ConfigurableTask(
        config={
            "task": "captions", "dataset_path": "none", "test_split": "test", "output_type": "generate_until",
            "doc_to_text": "Caption.", "doc_to_target": "answer", "doc_to_visual": lambda doc: [],
            "process_results": with_image, "process_results_use_image": True,
            "metric_list": [{"metric": "suisei", "aggregation": aggregate, "higher_is_better": True}],
        },
        model_name="none",
    )  # fmt: skip
    output = TaskOutput.from_taskdict("captions", task)
    output.args = SimpleNamespace()
    for doc, caption in zip(task.test_docs(), given.captions, strict=True):
        for name, value in task.process_results(doc, [caption]).items():
            output.sample_metrics[name, "none"].append(value)
    output.calculate_aggregate_metric(bootstrap_iters=0)
    expected = command_scores(f"suisei:{model_folder}", window=1)
    assert output.agg_metrics["suisei,none"] == pytest.approx(sum(expected) / len(expected), abs=1e-9)


def test_the_pair_makes_its_metric_once_for_all_threads(monkeypatch):
    """lmms-eval calls process_results from several at one time, and a model is large."""
    together, made = Barrier(4), []

    def slowly(spec, where):
        made.append(spec)
        sleep(0.05)  # so that all of them ask before it is made
        return row_metric(spec, where)

    monkeypatch.setattr("suisei.adapters.lmms_eval.row_metric", slowly)
    process, _ = make_pair("rouge-l", image=None)

    def ask(caption):
        together.wait()
        return process({"answer": ["a dog"]}, [caption])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, ["a dog"] * 4))
    assert found == [{"rouge-l": pytest.approx(1)}] * 4
    assert made == ["rouge-l"]
