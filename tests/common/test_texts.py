"""Texts of unknown encoding, and the files that they name."""

import os
import unicodedata

import pytest

from gendr._common.texts import decode, find_file, read_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_no_part_of_the_text(encoding):
    assert decode("v 1 ü 红\n".encode(encoding)) == "v 1 ü 红\n"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1251", "gbk"])
def test_names_in_other_encodings_stay_apart(encoding):
    a, b = {"latin-1": "üä", "cp1251": "аб"}.get(encoding, "红色")
    assert decode(a.encode(encoding)) != decode(b.encode(encoding))


def test_lines_end_alike(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "a.txt") == "a\nb\nc\n"


@pytest.mark.parametrize(
    "name",
    [
        "images/é.png",
        "images\\é.png",
        ".\\images\\é.png",
        "./images\\é.png",
        "IMAGES/É.PNG",
        unicodedata.normalize("NFD", "images/é.png"),
    ],
)
@pytest.mark.parametrize("disk", ["NFC", "NFD"])
def test_files_are_found_under_other_spellings(tmp_path, name, disk):
    (tmp_path / "images").mkdir()
    file = tmp_path / "images" / unicodedata.normalize(disk, "é.png")
    file.touch()
    assert find_file(tmp_path, name) == file


def test_a_name_in_another_encoding_is_found_by_its_bytes(tmp_path):
    file = tmp_path / os.fsdecode("rotü.png".encode("latin-1"))
    file.touch()
    assert find_file(tmp_path, decode(b"rot\xfc.png")) == file


def test_two_files_that_differ_in_case_are_not_guessed(tmp_path):
    for name in ("A.png", "a.PNG"):
        (tmp_path / name).touch()
    assert find_file(tmp_path, "a.png") is None
    assert find_file(tmp_path, "gone/a.png") is None
