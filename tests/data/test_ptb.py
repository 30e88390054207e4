import hashlib
import shutil

import pytest

from sdrop.data import BpttBatches, DataError, Vocabulary, load_corpus, ptb


@pytest.fixture(scope="module")
def corpus(ptb_folder):
    return load_corpus("ptb", root=ptb_folder)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of three small files that pass for the real ones."""
    sums = {}
    for split in ptb.MD5:
        content = f" a word of {split} \n <unk> N \n".encode()
        (tmp_path / f"ptb.{split}.txt").write_bytes(content)
        sums[split] = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(ptb, "MD5", sums)
    return tmp_path


def test_the_real_files_have_the_published_counts(corpus):
    assert [len(split) for split in (corpus.train, corpus.valid, corpus.test)] == [
        929_589,
        73_760,
        82_430,
    ]


def test_the_vocabulary_of_the_real_training_text_is_10000_and_knows_all(corpus):
    vocabulary = Vocabulary.build(corpus.train)
    assert len(vocabulary) == 10_000
    strict = Vocabulary(vocabulary.tokens[1:])  # without <unk>, an unknown word is an error
    strict.encode(word for word in corpus.valid + corpus.test if word != "<unk>")


@pytest.mark.parametrize(("batch_size", "bptt"), [(20, 35), (1, 1000), (7, 64)])
def test_82429_predictions_are_made_on_the_real_test_text(corpus, batch_size, bptt):
    ids = Vocabulary.build(corpus.train).encode(corpus.test)
    batches = BpttBatches(ids, batch_size=batch_size, bptt=bptt)
    assert sum(batch.tokens for batch in batches.epoch(0)) == 82_429


def test_lines_are_read_as_words_and_closed(small):
    corpus = load_corpus("ptb", root=small)
    assert corpus.test == ["a", "word", "of", "test", "<eos>", "<unk>", "N", "<eos>"]
    assert corpus.name == "ptb"


def test_without_a_folder_it_says_what_is_needed():
    with pytest.raises(DataError, match=r"'ptb' needs `root`.*ptb.train.txt, ptb.valid.txt"):
        load_corpus("ptb")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_missing_file_is_told_where_to_put_it(small, split):
    (small / f"ptb.{split}.txt").unlink()
    with pytest.raises(DataError) as caught:
        load_corpus("ptb", root=small)
    message = str(caught.value)
    assert f"{small / f'ptb.{split}.txt'} does not exist" in message
    assert f"(MD5 {ptb.MD5[split]}) into {small} by hand" in message
    assert "download=true" in message
    assert len(message.splitlines()) < 8


@pytest.mark.parametrize("change", ["truncated", "crlf", "other"])
def test_a_file_with_another_checksum_is_refused_and_left_alone(small, change):
    path = small / "ptb.valid.txt"
    content = path.read_bytes()
    changed = {
        "truncated": content[:-5],
        "crlf": content.replace(b"\n", b"\r\n"),
        "other": b"my own text\n",
    }[change]
    path.write_bytes(changed)
    for download in (False, True):
        with pytest.raises(DataError) as caught:
            load_corpus("ptb", root=small, download=download)
        message = str(caught.value)
        assert str(path) in message
        assert f"MD5 is {hashlib.md5(changed).hexdigest()}" in message
        assert f"expected {ptb.MD5['valid']}" in message
        assert "use the corpus 'text'" in message
    assert path.read_bytes() == changed


def test_a_folder_in_place_of_a_file_is_told(small):
    (small / "ptb.test.txt").unlink()
    (small / "ptb.test.txt").mkdir()
    with pytest.raises(DataError, match="ptb.test.txt is a folder"):
        load_corpus("ptb", root=small)


def test_a_folder_that_may_not_be_read_is_told(no_rights):
    with pytest.raises(DataError, match="ptb.train.txt cannot be read: Permission denied"):
        load_corpus("ptb", root=no_rights)


def test_files_at_hand_are_used_without_a_download(small, monkeypatch):
    monkeypatch.setattr(ptb, "fetch", lambda *args, **kwargs: pytest.fail("downloaded"))
    assert load_corpus("ptb", root=small, download=True).name == "ptb"


def test_a_read_only_folder_is_enough_for_files_at_hand(ptb_folder, tmp_path):
    for split in ptb.MD5:
        shutil.copy(ptb_folder / f"ptb.{split}.txt", tmp_path)
    tmp_path.chmod(0o500)
    try:
        assert len(load_corpus("ptb", root=tmp_path, download=True).test) == 82_430
    finally:
        tmp_path.chmod(0o700)
