"""Parallel text: the forms that it comes in, what is left out, and what is refused."""

import pytest

from sdrop.data import DataError, load_parallel
from sdrop.data.wit3 import read_segments

LINES = {
    "train": [("ja .", "yes ."), ("nein .", "no ."), ("", "lost"), ("vielleicht", "maybe")],
    "valid": [("gut", "good"), ("vielleicht", "maybe")],
    "test": [("", ""), ("schlecht", "bad")],
}


def write(folder, lines=LINES, names=None):
    for split, pairs in lines.items():
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{(names or {}).get(split, split)}.{language}").write_text(text, "utf-8")


@pytest.fixture
def folder(tmp_path):
    write(tmp_path)
    return tmp_path


def load(folder, **options):
    return load_parallel("parallel", source="de", target="en", root=folder, **options)


def test_aligned_files_are_read_and_useless_or_measured_training_pairs_left_out(folder):
    corpus = load(folder)
    assert list(zip(corpus.train.source, corpus.train.target, strict=True)) == [
        ("ja .", "yes ."),
        ("nein .", "no ."),
    ]
    assert corpus.notes == (
        "left out 1 training pairs with an empty side",
        "left out 1 training pairs that are validation or test pairs",
    )
    assert (corpus.valid.source, corpus.test.source) == (["gut", "vielleicht"], ["", "schlecht"])
    assert corpus.tokenized
    assert not load(folder, tokenized=False).tokenized


def test_the_direction_may_be_turned_round(folder):
    corpus = load_parallel("parallel", source="en", target="de", root=folder)
    assert (corpus.valid.source, corpus.valid.target) == (["good", "maybe"], ["gut", "vielleicht"])


def test_other_names_of_the_files_are_taken(tmp_path):
    write(tmp_path, names={"train": "corpus", "test": "tst2013"})
    files = {"train": str(tmp_path / "corpus"), "valid": "valid", "test": "tst2013"}
    assert len(load(tmp_path, files=files).train) == 2
    with pytest.raises(DataError, match=r"train\.de does not exist: expected aligned files"):
        load(tmp_path)


def test_the_signature_follows_the_text(folder):
    before = load(folder).signature
    assert load(folder).signature == before
    (folder / "test.en").write_text("\nworse\n")
    assert load(folder).signature != before


def test_names_are_near_and_files_are_one_for_each_split(folder):
    with pytest.raises(DataError, match="Did you mean 'parallel'"):
        load_parallel("paralel")
    with pytest.raises(DataError, match="names test, train; expected one file for each of train"):
        load_parallel("parallel", root=folder, files={"train": "train", "test": "test"})


def test_sides_of_different_length_are_named_with_the_line(folder):
    (folder / "valid.en").write_text("good\n")
    with pytest.raises(DataError, match=r"valid\.de has 2 lines and .*valid\.en 1") as error:
        load(folder)
    assert "valid.de, line 2, has none: 'vielleicht'" in str(error.value)


def test_text_that_is_not_utf8_is_named_with_file_and_line(folder):
    (folder / "train.de").write_bytes(b"ja\nn\xf6\n\nx\n")
    with pytest.raises(DataError, match=r"train\.de, line 2: byte 0xf6 is not UTF-8"):
        load(folder)


def test_crlf_a_byte_order_mark_and_a_missing_last_newline_are_read_as_meant(folder):
    (folder / "valid.de").write_bytes("\ufeffgut\r\nvielleicht".encode())
    assert load(folder).valid.source == ["gut", "vielleicht"]


def test_splits_without_a_pair_and_unknown_corpora_are_refused(folder):
    with pytest.raises(DataError, match="unknown corpus 'paralel'; expected one of dates, iwslt14"):
        load_parallel("paralel")
    for language in ("de", "en"):
        (folder / f"test.{language}").write_text("")
    with pytest.raises(DataError, match=r"the test text has no line.*/test\.de and \.en"):
        load(folder)
    (folder / "train.en").write_text("\n\n\n\n")
    with pytest.raises(
        DataError, match=r"no training pair is left of 4: 4 have an empty side.*/train\.de"
    ):
        load(folder)


TAGS = """<url>http://x</url>
<keywords>talks</keywords>
<talkid>1</talkid>
<title>{title}</title>
<description>{about}</description>
{first}

{second}
<reviewer>somebody</reviewer>
"""
XML = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><refset><doc docid="1"><url>http://x</url><description>left out</description>
<seg id="1"> {first} </seg>
<seg id="2">{second} &amp; more</seg>
</doc></refset></mteval>
"""
SETS = ("dev2010", "dev2012", "tst2010", "tst2011", "tst2012")


@pytest.fixture
def wit3(tmp_path):
    """A tiny unpacked archive."""
    for language in ("de", "en"):
        words = {"title": "T", "about": "A", "first": f"one {language}", "second": "two"}
        (tmp_path / f"train.tags.de-en.{language}").write_text(TAGS.format(**words))
        for name in SETS:
            words = {"first": f"{name} {language}", "second": "zwei"}
            path = tmp_path / f"IWSLT14.TED.{name}.de-en.{language}.xml"
            path.write_text(XML.format(**words))
    return tmp_path


def test_a_wit3_archive_is_split_as_fairseq_splits_it(wit3):
    corpus = load_parallel("iwslt14_de_en", root=wit3, source="de", target="en")
    assert corpus.valid.source == ["T"]  # lines 0, 23, 46, ...
    assert corpus.train.source == ["A", "one de", "two"]
    assert corpus.train.target == ["A", "one en", "two"]
    assert corpus.test.source == [line for name in SETS for line in (f"{name} de", "zwei & more")]
    assert not corpus.tokenized
    assert corpus.notes == ("left out 1 training pairs with an empty side",)
    turned = load_parallel("iwslt14_de_en", root=wit3, source="en", target="de")
    assert turned.train.source == corpus.train.target


def test_a_wit3_archive_that_is_not_whole_is_named(wit3):
    (wit3 / "IWSLT14.TED.tst2011.de-en.en.xml").unlink()
    with pytest.raises(DataError, match=r"has no IWSLT\*\.tst2011\.de-en\.en\.xml: unpack"):
        load_parallel("iwslt14_de_en", root=wit3)
    (wit3 / "train.tags.de-en.en").unlink()
    with pytest.raises(DataError, match=r"none of 'en': expected train\.tags\.de-en\.en"):
        load_parallel("iwslt14_de_en", root=wit3)


def test_broken_xml_is_named_with_its_line(tmp_path):
    path = tmp_path / "set.xml"
    path.write_text("<mteval>\n<seg>a & b</seg>\n</mteval>\n")
    with pytest.raises(DataError, match=r"set\.xml, line 2: not the XML of an evaluation set"):
        read_segments(path)


def test_prepared_iwslt15_is_read_whole(shared_data):
    root = shared_data / "iwslt15_envi"
    files = {"train": "train_first1000_exact/train", "valid": "tst2012", "test": "tst2013"}
    corpus = load_parallel("iwslt15_en_vi", source="en", target="vi", root=root, files=files)
    assert (len(corpus.valid), len(corpus.test)) == (1553, 1268)
    assert len(corpus.train) <= 1000


def test_training_pairs_of_iwslt14_that_are_measured_too_are_left_out(shared_data):
    files = {"train": "train_subset", "valid": "valid", "test": "test"}
    corpus = load_parallel("iwslt14_de_en", root=shared_data / "iwslt14_deen", files=files)
    pairs = set(zip(corpus.train.source, corpus.train.target, strict=True))
    for text in (corpus.valid, corpus.test):
        assert not pairs & set(zip(text.source, text.target, strict=True))
    assert (len(corpus.valid), len(corpus.test)) == (7283, 6750)
