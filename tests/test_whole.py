"""A file is there whole or not at all."""

import pytest

from edge_lightning.whole import whole


def test_a_file_is_replaced_when_its_block_ends(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with whole(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert (path.read_text(), list(tmp_path.iterdir())) == ("new", [path])


def test_a_file_stays_as_it_was_where_its_block_raises(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")

    def interrupted():
        with whole(path) as part:
            part.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"


def test_nothing_is_left_of_a_block_that_raises(tmp_path):
    def full(write):
        with whole(tmp_path / "a") as part:
            write(part)
            raise OSError(28, "No space left on device")

    for write in (
        lambda part: part.write_text("half"),
        lambda part: (part.mkdir(), (part / "b").touch()),
        lambda part: None,
    ):
        with pytest.raises(OSError, match="No space left"):
            full(write)
        assert list(tmp_path.iterdir()) == []
