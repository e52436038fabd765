"""The learning curve: all starts of a run together, and a picture of them."""

from PIL import Image

from suisei.training import learning_curve
from suisei.training.learning_curve import plot_curves, read_curves


def write(folder, version, text):
    path = folder / f"version_{version}" / "metrics.csv"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


HEAD = "epoch,step,train_loss,val_kendall,val_loss,val_pearson\n"


def test_a_later_start_decides_where_steps_meet(tmp_path):
    write(tmp_path, 0, HEAD + "0,9,0.5,,,\n0,9,,0.1,0.4,0.2\n1,19,0.3,,,\n1,19,,0.9,0.9,0.9\n")
    write(tmp_path, 1, HEAD + "1,15,0.4,,,\n1,19,0.35,,,\n1,19,,0.3,0.2,nan\n")
    write(tmp_path, 10, HEAD + "2,29,0.25,,,\n")  # after 1, and not between 1 and 2
    curves = read_curves(tmp_path)
    assert curves["train_loss"] == {10: 0.5, 16: 0.4, 20: 0.35, 30: 0.25}
    assert curves["val_loss"] == {10: 0.4, 20: 0.2}
    assert curves["val_pearson"] == {10: 0.2}  # what was not defined is no point
    assert "epoch" not in curves


def test_a_validation_within_the_step_that_a_later_start_ends_is_kept(tmp_path):
    for start, rows in enumerate(["2,4,\n2,,3\n3,7,\n3,,8\n", "2,5,\n"]):
        (tmp_path / f"version_{start}").mkdir()
        (tmp_path / f"version_{start}" / "metrics.csv").write_text(f"step,train_loss,val_loss\n{rows}")
    assert read_curves(tmp_path) == {"train_loss": {3: 5}, "val_loss": {3: 3}}


def test_a_file_that_was_cut_off_gives_what_it_has(tmp_path):
    write(tmp_path, 0, HEAD + "0,9,0.5,,,\n0,1")
    assert read_curves(tmp_path) == {"train_loss": {10: 0.5}}
    assert read_curves(tmp_path / "none") == {}
    write(tmp_path, "x", HEAD + "0,1,0.5,,,\n0,2," + "x" * 200_000)  # longer than the csv module takes
    assert read_curves(tmp_path) == {"train_loss": {2: 0.5, 10: 0.5}}


def test_the_picture(tmp_path):
    curves = {"train_loss": {10: 0.5, 20: 0.3}, "val_pearson": {10: 0.1, 20: 0.4}}
    assert plot_curves(tmp_path / "c.png", curves, 20)
    with Image.open(tmp_path / "c.png") as image:
        assert image.width > 1.5 * image.height  # two panels
        assert len(image.convert("RGB").getcolors(1 << 24)) > 50
    assert plot_curves(tmp_path / "one.png", {"val_loss": {1: 0.5}}, None)
    with Image.open(tmp_path / "one.png") as image:
        assert image.width < 1.5 * image.height
    assert not plot_curves(tmp_path / "none.png", {"lr": {1: 0.5}}, None)
    assert not (tmp_path / "none.png").exists()


def test_a_short_training_shows_its_only_loss_and_whole_steps(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(learning_curve, "save_figure", lambda figure, _: figures.append(figure))
    assert plot_curves(tmp_path / "c.png", {"train_loss": {10: 0.5}, "val_loss": {5: 0.4, 10: 0.3}}, None)
    axis = figures[0].axes[0]
    assert axis.lines[0].get_marker() == "o"  # a line of one point is nothing
    assert all(tick == round(tick) for tick in axis.get_xticks())
