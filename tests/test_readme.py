"""What the README and docs say is so: snippets run, commands are right, files are there."""

import re
import shlex
from pathlib import Path

import pytest

from recipes.configuration import find_mistakes
from sdrop.benchmark.readme import update_readme
from sdrop.benchmark.rows import read_rows

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text()
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    command
    for page in PAGES
    for command in re.findall(
        r"^    (python -m recipes\.\w+.*?)(?:\s+#.*)?$", page.read_text(), re.MULTILINE
    )
]


def test_the_snippets_run_as_printed_one_after_the_other():
    names = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["scores"].shape == (35, 20, 10_000)
    assert [row.variant for row in names["rows"]] == ["structured"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_have_no_mistake(command):
    _, _, module, *arguments = shlex.split(command)
    overrides = [each for each in arguments if not each.startswith("-")]
    recipe = module.removeprefix("recipes.")
    assert find_mistakes(recipe, overrides, sweep="-m" in arguments) == []


@pytest.mark.parametrize("name", ["README.md", "docs/benchmark.md"])
def test_the_speed_tables_are_those_of_the_stored_rows(name, tmp_path):
    text = (REPOSITORY / name).read_text()
    copy = tmp_path / "page.md"
    copy.write_text(text)
    update_readme(copy, read_rows(REPOSITORY / "docs" / "bench.json"))
    assert copy.read_text() == text


def test_the_files_that_are_linked_are_there():
    links = [
        (page, link)
        for page in PAGES
        for link in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text())
    ]
    assert {"docs/masks.md", "docs/recipes.md", "docs/demo.png"} <= {link for _, link in links}
    for page, link in links:
        file, _, heading = link.partition("#")
        target = page.parent / file if file else page
        assert target.is_file(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if heading else []
        anchors = [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings]
        assert heading in ("", *anchors), link


def test_the_choices_that_are_named_are_there():
    named = set(re.findall(r"`(none|standard|variational|structured\w*)`", README))
    assert named == {path.stem for path in (REPOSITORY / "conf" / "dropout").glob("*.yaml")}


def test_make_knows_the_two_commands():
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
