"""What a tagger must beat."""

from sdrop.data.columns import Sentence
from sdrop.models.tagging_baselines import look_up_tags, softmax_tags

TRAIN = [
    Sentence(("New", "York", "is", "big"), ("B-LOC", "I-LOC", "O", "O")),
    Sentence(("York", "is", "old"), ("B-LOC", "O", "O")),
    Sentence(("Chad", "met", "Anna"), ("B-PER", "O", "B-PER")),
    Sentence(("Chad", "beat", "York"), ("B-LOC", "O", "B-LOC")),
    Sentence(("Chad", "lost"), ("B-LOC", "O")),
    Sentence(("big", "May", "May", "May"), ("O", "O", "O", "B-PER")),
]


def test_the_table_takes_the_longest_name_and_its_most_frequent_type():
    tokens = [("Chad", "saw", "New", "York", "York"), ("May", "Boris")]
    assert look_up_tags(TRAIN, tokens, "iob2") == [
        ["B-LOC", "O", "B-LOC", "I-LOC", "B-LOC"],
        ["O", "O"],  # May is outside more often than in
    ]


def test_the_softmax_sees_word_neighbours_and_shape():
    tokens = [each.tokens for each in TRAIN]
    assert softmax_tags(TRAIN, tokens)[0] == list(TRAIN[0].tags)
    train = [Sentence(("in", name), ("O", "B-X")) for name in ("Abc", "Def")]
    train += [Sentence(("to", name), ("O", "O")) for name in ("Abc", "Def")]
    assert softmax_tags(train, [("in", "Ghi"), ("to", "Ghi")]) == [["O", "B-X"], ["O", "O"]]
    assert softmax_tags(train, tokens) == softmax_tags(train, tokens)
