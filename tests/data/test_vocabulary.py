import copy
import importlib.metadata
import pickle
import subprocess
import sys
import warnings

import pytest
import torch

from sdrop.data import DataError, Vocabulary, vocabulary

TEXT = ["a", "b", "a", "c", "b", "a", "<eos>", "d", "<eos>"]


@pytest.fixture(autouse=True)
def fresh_torchtext():
    """The imported class is remembered; tests that hide torchtext need it forgotten."""
    vocabulary.torchtext_vocab.cache_clear()
    yield
    vocabulary.torchtext_vocab.cache_clear()


def test_specials_come_first_then_frequent_words_with_ties_by_alphabet():
    assert Vocabulary.build(TEXT).tokens == ("<unk>", "a", "<eos>", "b", "c", "d")


def test_a_special_that_the_text_holds_is_no_second_word():
    built = Vocabulary.build([*TEXT, "<unk>"], specials=("<pad>", "<unk>"))
    assert built.tokens == ("<pad>", "<unk>", "a", "<eos>", "b", "c", "d")


def test_rare_words_are_left_out_and_encoded_as_unknown():
    built = Vocabulary.build(TEXT, min_frequency=2)
    assert built.tokens == ("<unk>", "a", "<eos>", "b")
    assert built.encode(["a", "c", "nonsense"]).tolist() == [1, 0, 0]


def test_a_frequency_that_no_word_has_is_refused_with_the_most_frequent_one():
    assert Vocabulary.build(TEXT, min_frequency=3).tokens == ("<unk>", "a")
    told = "min_frequency=4 leaves no word .* 'a', stands in it 3 times; expected 3 or less"
    with pytest.raises(DataError, match=told):
        Vocabulary.build(["<unk>"] * 5 + TEXT, min_frequency=4)


def test_a_text_of_specials_alone_is_refused():
    with pytest.raises(DataError, match="no word beside <unk>"):
        Vocabulary.build(["<unk>", "<unk>"])


def test_max_size_counts_the_specials():
    assert Vocabulary.build(TEXT, max_size=3).tokens == ("<unk>", "a", "<eos>")


def test_encode_gives_int64_numbers_that_decode_turns_back():
    built = Vocabulary.build(TEXT)
    ids = built.encode(TEXT)
    assert ids.dtype == torch.int64
    assert ids.shape == (len(TEXT),)
    assert built.decode(ids) == built.decode(ids.tolist()) == TEXT


def test_encode_of_nothing_is_an_empty_int64_tensor():
    ids = Vocabulary.build(TEXT).encode([])
    assert ids.shape == (0,)
    assert ids.dtype == torch.int64


def test_unknown_words_are_not_inserted():
    built = Vocabulary.build(TEXT)
    before = len(built), len(built._vocab.stoi)
    built.encode(["nonsense", "more"])
    assert "nonsense" not in built
    assert (len(built), len(built._vocab.stoi)) == before


def test_contains_and_length():
    built = Vocabulary.build(TEXT)
    assert "a" in built
    assert "z" not in built
    assert 3 not in built
    assert len(built) == 6


def test_an_unknown_word_without_unk_is_named():
    built = Vocabulary.build(TEXT, specials=())
    assert "<unk>" not in built
    with pytest.raises(DataError, match="'nonsense' is not in the vocabulary, which has no <unk>"):
        built.encode(["a", "nonsense"])


def test_a_string_in_place_of_words_is_refused():
    with pytest.raises(DataError, match="expected a list of words, got the string 'a b'"):
        Vocabulary.build(TEXT).encode("a b")


@pytest.mark.parametrize("number", [-1, 6])
def test_decode_names_a_number_out_of_range(number):
    with pytest.raises(DataError, match=f"no word has the number {number}: expected 0 to 5"):
        Vocabulary.build(TEXT).decode([0, number])


def test_decode_wants_one_axis():
    with pytest.raises(DataError, match=r"shape \(N,\), got \(2, 2\)"):
        Vocabulary.build(TEXT).decode(torch.zeros(2, 2, dtype=torch.int64))


def test_a_vocabulary_of_nothing_is_refused():
    with pytest.raises(DataError, match="expected the tokens of a training text"):
        Vocabulary.build([])


@pytest.mark.parametrize("max_size", [1, 0, -3])
def test_max_size_must_leave_room_for_a_word(max_size):
    with pytest.raises(DataError, match=f"max_size={max_size} leaves no room.*expected 2 or more"):
        Vocabulary.build(TEXT, max_size=max_size)


def test_save_and_load_keep_order_and_signature(tmp_path):
    built = Vocabulary.build([*TEXT, "naïve", "…", "\u2028x", "\xa0"])
    built.save(tmp_path / "vocabulary.txt")
    loaded = Vocabulary.load(tmp_path / "vocabulary.txt")
    assert loaded.tokens == built.tokens
    assert loaded.signature == built.signature
    assert torch.equal(loaded.encode(["c", "unseen"]), built.encode(["c", "unseen"]))


def test_the_file_is_text_with_one_word_a_line_and_nothing_beside_it(tmp_path):
    Vocabulary.build(TEXT).save(tmp_path / "vocabulary.txt")
    assert (tmp_path / "vocabulary.txt").read_bytes() == b"<unk>\na\n<eos>\nb\nc\nd\n"
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.txt"]


def test_a_vocabulary_edited_elsewhere_is_read_as_meant(tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(b"\xef\xbb\xbf<unk>\r\na\r\nb")
    assert Vocabulary.load(path).tokens == ("<unk>", "a", "b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<unk>\na\n\nb\n", "line 3: the word is empty"),
        (b"<unk>\na\nb\na\n", "line 4: the word 'a' stands at 2 already"),
        (b"<unk>\n\xff\n", "line 2: byte 0xff is not UTF-8"),
        (b"", "is empty: expected a vocabulary, one word a line"),
    ],
)
def test_a_bad_vocabulary_file_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        Vocabulary.load(path)
    assert "vocabulary.txt" in str(caught.value)


def test_a_word_with_a_line_end_cannot_be_stored():
    with pytest.raises(DataError, match=r"word 2 of the vocabulary holds a line end: 'b\\n'"):
        Vocabulary(["a", "b\n"])


def test_signature_depends_on_words_and_their_order():
    signatures = {Vocabulary(words).signature for words in (["a", "b"], ["b", "a"], ["a", "c"])}
    assert len(signatures) == 3
    assert Vocabulary(["a", "b"]).signature in signatures


def test_copies_keep_the_numbers():
    built = Vocabulary.build(TEXT)
    for copied in (copy.deepcopy(built), pickle.loads(pickle.dumps(built))):
        assert copied.tokens == built.tokens
        assert copied.encode(["b", "unseen"]).tolist() == [3, 0]


def test_repr_is_short():
    assert repr(Vocabulary.build(TEXT)).startswith("Vocabulary(6 words, signature=")


@pytest.mark.parametrize("version", ["0.18.0", "0.5.0"])
def test_another_torchtext_is_refused_before_it_is_imported(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"{name} imported"))
    with pytest.raises(DataError) as caught:
        Vocabulary.build(TEXT)
    message = str(caught.value)
    assert f"torchtext {version} is installed" in message
    assert "pip install torchtext==0.6.0" in message
    assert "fail at import" in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_missing_torchtext_is_asked_for(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(DataError, match="torchtext is not installed.*torchtext==0.6.0") as caught:
        Vocabulary.build(TEXT)
    assert caught.value.__suppress_context__


def test_a_torchtext_that_fails_at_import_is_told_without_its_traceback(monkeypatch):
    def broken(name):
        raise OSError("undefined symbol: _ZN3c10")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(DataError, match=r"fails at import \(undefined symbol") as caught:
        Vocabulary.build(TEXT)
    assert caught.value.__suppress_context__


def test_what_old_torchtext_warns_of_at_import_stays_quiet(monkeypatch):
    vocab = importlib.import_module("torchtext.vocab")

    def noisy(name):
        warnings.warn("invalid escape sequence", SyntaxWarning, stacklevel=2)
        return vocab

    monkeypatch.setattr(importlib, "import_module", noisy)
    assert len(Vocabulary.build(TEXT)) == 6


def test_torchtext_is_imported_with_the_first_vocabulary_and_warns_of_nothing():
    program = (
        "import sys, sdrop.data\n"
        "assert 'torchtext' not in sys.modules\n"
        "sdrop.data.Vocabulary.build(['a'])\n"
        "assert 'torchtext' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""
