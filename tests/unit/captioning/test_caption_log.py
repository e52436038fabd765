"""Lines of a run's folder, and the figure of its curve."""

import json
import re

import pytest

from suisei.captioning import caption_log
from suisei.captioning.caption_log import CaptionLog, before, plot_curve


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sample(image, caption):
    return {"image": image, "caption": caption, "reward": 1.0}


def test_captions_are_written_when_they_change(tmp_path):
    log = CaptionLog(tmp_path / "run")
    log.write(0, {"reward": 0.1}, [sample("a", "犬"), sample("b", "a cat")])
    log.write(5, {"reward": 0.2}, [sample("a", "犬"), sample("b", "two cats")])
    log.write(10, {"reward": None}, [sample("a", "猫"), sample("b", "two cats")])
    assert [row["reward"] for row in lines(tmp_path / "run" / "curve.jsonl")] == [0.1, 0.2, None]
    told = [(row["step"], row["image"], row["caption"]) for row in lines(tmp_path / "run" / "samples.jsonl")]
    assert told == [(0, "a", "犬"), (0, "b", "a cat"), (5, "b", "two cats"), (10, "a", "猫")]


def test_the_name_of_an_image_may_hold_what_ends_a_line_elsewhere(tmp_path):
    log, name = CaptionLog(tmp_path), "a\u2028b\x85.png"
    for step in (0, 5):
        log.write(step, {"reward": 0.1}, [sample(name, "a dog")])
    assert [row["image"] for row in before(tmp_path / "samples.jsonl")] == [name]


def test_a_run_that_goes_on_writes_later_steps_anew(tmp_path):
    log = CaptionLog(tmp_path)
    for step, caption in ((0, "x"), (5, "y"), (10, "z")):
        log.write(step, {"reward": float(step)}, [sample("a", caption)])
    CaptionLog(tmp_path).write(5, {"reward": 7.0}, [sample("a", "w")])
    assert [(row["step"], row["reward"]) for row in lines(tmp_path / "curve.jsonl")] == [(0, 0.0), (5, 7.0)]
    assert [row["caption"] for row in lines(tmp_path / "samples.jsonl")] == ["x", "w"]
    assert before(tmp_path / "curve.jsonl", 5) == [{"step": 0, "reward": 0.0}]
    assert before(tmp_path / "none.jsonl") == []


def test_the_curve_is_drawn_where_there_is_one(tmp_path):
    log = CaptionLog(tmp_path)
    assert not plot_curve(tmp_path / "curve.png", tmp_path, "x")
    log.write(0, {"reward": 0.1, "length": None, "a": 1, "b": 2}, [])
    log.write(5, {"reward": 0.2, "length": 1.5, "a": 1, "b": 2}, [])
    assert plot_curve(tmp_path / "curve.png", tmp_path, "rewarded by $x$")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


REWARDS = {
    "a folder": f"pac-s:{'a/folder_of_models/' * 9}model",
    "capitals": f"pac-s:{'MODELS/OF/A_COMPANY/' * 9}",
    "Japanese": f"pac-s:{'画像の説明文の評価/' * 15}",
    "many terms": " + ".join(f"0.{number}*pac-s:runs/folder_{number}/model" for number in range(1, 60)),
}


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("panels", [1, 2, 3])
def test_a_reward_of_long_names_stands_whole_above_the_curve(tmp_path, monkeypatch, panels, reward):
    drawn = []
    monkeypatch.setattr(caption_log, "save_figure", lambda figure, path: drawn.append(figure))
    log = CaptionLog(tmp_path)
    for step in (0, 5):
        log.write(step, {f"figure {number}": 1.0 for number in range(panels)}, [])
    assert plot_curve(tmp_path / "curve.png", tmp_path, f"rewarded by {reward}")
    (figure,) = drawn
    figure.canvas.draw()  # which lays it out
    heading = figure._suptitle
    box = heading.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert "".join(heading.get_text().split()) == f"rewardedby{reward}".replace(" ", "")
    letters = max(len(re.sub("[ぁ-鿿]", "xx", line)) for line in heading.get_text().split("\n"))
    assert letters <= 34 * panels  # not every machine has a font for Japanese
    for panel in figure.axes:
        assert panel.get_tightbbox().y1 <= box.y0
        assert panel.get_window_extent().height > 80  # pixels, of 100 an inch
