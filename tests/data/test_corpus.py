import pytest

from sdrop.data import Corpus, DataError, load_corpus


@pytest.fixture
def folder(tmp_path):
    for split, text in {
        "train": "the cat sat\nit  sat\n\n",
        "valid": "the cat\n",
        "test": "sat",
    }.items():
        (tmp_path / f"{split}.txt").write_text(text)
    return tmp_path


def test_words_are_parted_by_white_space_and_each_line_closed(folder):
    corpus = load_corpus("text", root=folder)
    assert corpus.train == ["the", "cat", "sat", "<eos>", "it", "sat", "<eos>"]
    assert corpus.valid == ["the", "cat", "<eos>"]
    assert corpus.test == ["sat", "<eos>"]
    assert corpus.name == "text"


def test_files_may_be_named_one_by_one(folder):
    files = {split: folder / f"{split}.txt" for split in ("train", "valid", "test")}
    assert load_corpus("text", files=files) == load_corpus("text", root=folder)


def test_relative_files_are_taken_from_root(folder):
    (folder / "train.txt").rename(folder / "other.txt")
    files = {"train": "other.txt", "valid": "valid.txt", "test": "test.txt"}
    assert load_corpus("text", root=str(folder), files=files).train[0] == "the"


def test_the_home_folder_may_be_written_as_a_tilde(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    files = {split: f"~/{folder.name}/{split}.txt" for split in ("train", "valid", "test")}
    assert load_corpus("text", root=f"~/{folder.name}") == load_corpus("text", files=files)


def test_line_ends_and_marks_change_neither_tokens_nor_signature(folder):
    plain = load_corpus("text", root=folder)
    (folder / "train.txt").write_bytes(b"\xef\xbb\xbfthe cat sat\r\nit  sat")
    assert load_corpus("text", root=folder) == plain


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_the_signature_depends_on_every_split(folder, split):
    before = load_corpus("text", root=folder).signature
    (folder / f"{split}.txt").write_text("another text\n")
    assert load_corpus("text", root=folder).signature != before


def test_the_signature_tells_which_split_holds_what(folder):
    before = load_corpus("text", root=folder).signature
    (folder / "valid.txt").rename(folder / "aside.txt")
    (folder / "test.txt").rename(folder / "valid.txt")
    (folder / "aside.txt").rename(folder / "test.txt")
    assert load_corpus("text", root=folder).signature != before


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \r\n"])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_an_empty_split_is_named(folder, split, content):
    (folder / f"{split}.txt").write_bytes(content)
    with pytest.raises(DataError, match=f"{split}.txt is empty: expected at least one line"):
        load_corpus("text", root=folder)


def test_a_missing_split_is_named(folder):
    (folder / "valid.txt").unlink()
    with pytest.raises(DataError, match="valid.txt is missing"):
        load_corpus("text", root=folder)


def test_text_without_any_file_is_told_what_to_give():
    with pytest.raises(DataError, match="needs your files: give `root`.*or `files`"):
        load_corpus("text")


@pytest.mark.parametrize("files", [{}, {"train": "a"}, {"train": "a", "valid": "b", "dev": "c"}])
def test_files_must_name_the_three_splits(files):
    with pytest.raises(DataError, match="expected one file for each of train, valid, test"):
        load_corpus("text", files=files)


@pytest.mark.parametrize(("given", "meant"), [("pbt", "ptb"), ("pydocs", "pydoc"), ("txt", "text")])
def test_a_mistyped_corpus_is_told_the_nearest_one(given, meant):
    with pytest.raises(DataError, match=f"unknown corpus '{given}'.*Did you mean '{meant}'"):
        load_corpus(given)


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [
        ("pydoc", {"root": "somewhere"}, "root"),
        ("pydoc", {"download": True}, "download"),
        ("ptb", {"root": "somewhere", "files": {}}, "files"),
        ("text", {"root": "somewhere", "download": True}, "download"),
    ],
)
def test_an_argument_without_meaning_is_refused_rather_than_ignored(name, arguments, wrong):
    with pytest.raises(DataError, match=f"`{wrong}` has no meaning for the corpus '{name}'"):
        load_corpus(name, **arguments)


def test_a_corpus_prints_itself_without_its_text():
    printed = repr(Corpus("text", ["a"] * 9, ["b"], ["c"], "0123"))
    assert printed == "Corpus(name='text', signature='0123')"


def test_data_errors_are_value_errors():
    assert issubclass(DataError, ValueError)
