"""A parallel corpus of a few lines, and a run of the iwslt recipe that learns it."""

from recipes.configuration import as_options, compose
from recipes.configuration.recall import with_recalled
from recipes.iwslt import run

PAIRS = [
    ("ein Hund sieht das Haus .", "a dog sees the house ."),
    ("das Haus ist alt .", "the house is old ."),
    ("ein alter Hund", "an old dog"),
    ("ein Haus , ein Hund", "a house , a dog"),
    ("der Hund ist hier .", "the dog is here ."),
]


def write_pairs(folder):
    """Writes the corpus; returns the overrides that read it."""
    for split, number in {"train": 5, "valid": 2, "test": 3}.items():
        for side, language in enumerate(("de", "en")):
            # No training pair may be a test pair, too.
            lines = [f"{pair[side]}{' !' * (split != 'train')}\n" for pair in PAIRS[:number]]
            (folder / f"{split}.{language}").write_text("".join(lines * (4 if number == 5 else 1)))
    return ("data=parallel", f"data.root='{folder}'", "data.source=de", "data.target=en")


def learn(pairs, folder):
    """A finished run, long enough to have learnt the corpus."""
    command = [*pairs, "model.hidden_size=24", "model.embedding_dim=16", "data.batch_size=5"]
    command += ["trainer.max_epochs=30", "trainer.validate_every_epochs=10", "dropout=none"]
    command += ["optimizer.lr=0.02", "trainer.keep_checkpoints=3", "attention_maps=[0,2]"]
    return run(as_options(compose("iwslt", command)), folder, command)


def recalled(*overrides):
    """Options as on the command line, with those of the run that `checkpoint=` names."""
    return as_options(compose("iwslt", with_recalled("iwslt", list(overrides))))
