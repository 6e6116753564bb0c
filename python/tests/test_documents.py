"""Tests that pages, headings, commands and files which the Markdown files name are there. First pages stay short."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {"build", "runs", "node_modules"}
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")


def documents() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.endswith(".md"))


@dataclass(frozen=True)
class Document:
    path: Path
    prose: str  # without any code
    blocks: list[tuple[str, str]]  # language, text
    spans: list[str]
    anchors: set[str]


def anchor_of(heading: str) -> str:
    """The anchor that GitHub makes for this heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors_of(text: str) -> set[str]:
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", text, re.MULTILINE):
        plain = anchor_of(heading)
        seen = [plain, *(f"{plain}-{n}" for n in range(1, 100))]
        anchors.add(next(one for one in seen if one not in anchors))
    return anchors


def read(path: Path) -> Document:
    text = path.read_text()
    outside = FENCE.sub("", text)
    return Document(
        path,
        SPAN.sub("``", outside),
        [(found[1], found[2]) for found in FENCE.finditer(text)],
        [found[2].strip() for found in SPAN.finditer(outside)],
        anchors_of(outside),
    )


DOCUMENTS = {path: read(path) for path in documents()}
each_document = pytest.mark.parametrize("page", DOCUMENTS.values(), ids=lambda page: str(page.path.relative_to(ROOT)))


def commands_of(page: Document) -> list[str]:
    return [text for language, text in page.blocks if language != "python"] + page.spans


def subcommands() -> set[str]:
    source = "".join(path.read_text() for path in sorted((ROOT / "paceline" / "tools" / "cli").glob("*.cc")))
    return set(re.findall(r'add_subcommand\(\s*"(\w+)"', source))


def usage() -> str:
    found = re.search(r"<<'TEXT'\n(.*?)^TEXT$", (ROOT / "dev").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, "./dev has no usage"
    return found[1]


@each_document
def test_links_lead_somewhere(page: Document) -> None:
    for target in LINK.findall(page.prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.path.parent / name).resolve() if name else page.path
        assert there.exists(), f"{target}: there is no {there}"
        assert not anchor or anchor in DOCUMENTS[there].anchors, f"{target}: that page has no such heading"


@each_document
def test_commands_of_paceline_exist(page: Document) -> None:
    known = subcommands()
    assert {"train", "node", "coordinator"} <= known
    for text in commands_of(page):
        for word in re.findall(r"""(?<![\w.-])paceline["',]* +["']?([a-z]+)""", text):
            assert word in known, f"paceline has no command {word!r}: {text}"


@each_document
def test_commands_of_dev_exist(page: Document) -> None:
    known = set(re.findall(r"^  ([a-z][a-z-]*)", usage(), re.MULTILINE))
    assert {"demo", "test", "bench"} <= known
    benches = usage()[usage().index("\n  bench NAME") :]
    for text in commands_of(page):
        for word, name in re.findall(r"\./dev ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", text):
            assert word in known, f"./dev has no command {word!r}: {text}"
            if word == "bench":
                assert re.search(rf"\b{name}[:,]", benches), f"./dev has no bench {name!r}: {text}"


def test_dev_runs_each_bench_that_it_names() -> None:
    [bench] = re.findall(r"^bench\(\) \{\n(.*?)^\}", (ROOT / "dev").read_text(), re.MULTILINE | re.DOTALL)
    [said] = re.findall(r'is unknown; write (.+?)"', bench)
    runs = " ".join(re.findall(r"^    ([a-z][a-z |-]*)\)", bench, re.MULTILINE))
    assert set(re.findall(r"[a-z-]+", runs)) == set(re.split(", | or ", said))


def test_the_examples_of_extensions_are_those_that_are_tested() -> None:
    page = (ROOT / "docs/extending.md").read_text()
    files = [file for file in sorted((ROOT / "examples/extending").iterdir()) if not file.stem.endswith("_test")]
    assert {file.stem for file in files} == {"local_carrier", "pairs", "rings", "signum", "tiny_net"}
    for file in files:
        assert f"```cpp\n{file.read_text()}```" in page, f"docs/extending.md does not show {file.name} as it is"


@each_document
def test_files_of_the_source_exist(page: Document) -> None:
    for span in page.spans:
        if re.fullmatch(r"[a-z_]+/[a-z0-9_/-]+\.(h|cc|py|toml)", span):
            assert (ROOT / span).exists() or (ROOT / "paceline" / span).exists(), f"there is no {span}"


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    readme = DOCUMENTS[ROOT / "README.md"]
    lines = readme.path.read_text().splitlines()
    assert len(lines) <= 130, f"README.md has {len(lines)} lines"
    named = {(ROOT / target.partition("#")[0]).resolve() for target in LINK.findall(readme.prose)}
    missing = {path.name for path in (ROOT / "docs").glob("*.md")} - {path.name for path in named}
    assert not missing, f"README.md does not name {', '.join(sorted(missing))}"


def tables_of(page: Path) -> list[list[list[str]]]:
    """Each table as its rows, the head first, and each row as its cells."""
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE)
    return [
        [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines() if not line.startswith("|-")]
        for table in tables
    ]


def test_the_glossary_has_each_word_once_and_says_where_it_lives() -> None:
    words: set[str] = set()
    for head, *rows in tables_of(ROOT / "docs/glossary.md"):
        assert head == ["word", "meaning", "in the field", "symbol", "where"]
        for row in rows:
            assert len(row) == len(head), f"a row of {len(row)} cells: {row[0]}"
            for word in row[0].split(", "):
                assert word not in words, f"{word} is there twice"
                words.add(word)
            assert row[1], f"{row[0]} has no meaning"
            for path in re.findall(r"`([^`]*)`", row[4]):
                assert (ROOT / "paceline" / path).exists(), f"{row[0]}: there is no {path}"
    assert {"device", "replica", "fact", "order", "local model"} <= words


def links_of_folders() -> dict[str, set[str]]:
    """Folders that the targets of each folder may include, from the lists of cmake/check_includes.cmake."""
    folders: dict[str, set[str]] = {}
    for file in sorted((ROOT / "paceline").rglob("CMakeLists.txt")):
        text = re.sub(r"#.*", "", file.read_text())
        for library in re.findall(r"^paceline_library\(([^)]*)\)", text, re.MULTILINE):
            found = re.search(r"\bDEPS\b(.*?)(?:\bSYSTEM\b|$)", library, re.DOTALL)
            folders.setdefault(file.parent.name, set()).update(found[1].split() if found else [])
    made = {"messages": "wire", "service": "wire", "event_file": "exports", "ui_request": "ui", "data_sets": "data"}
    return {name: {made.get(link, link) for link in links} - {name} for name, links in folders.items()}


def test_the_page_of_folders_says_what_each_of_them_sees() -> None:
    head, *rows = next(table for table in tables_of(ROOT / "docs/design/folders.md") if table[0][0] == "folder")
    assert head == ["folder", "what lives there", "sees"]
    said = {row[0].strip("`/").split("/")[-1]: {link.strip() for link in row[2].split(",")} for row in rows}
    folders = links_of_folders()
    assert said.keys() == folders.keys()
    outside = {"std", "Abseil", "fmt", "OpenSSL"}
    for name, links in folders.items():
        if said[name] == {"all"}:
            continue
        assert said[name] - outside == links, f"{name} sees {', '.join(sorted(links))}"


def drawn_places(picture: str) -> dict[str, tuple[int, int]]:
    """The folders of the picture of the house, each with its row and its place in the row."""
    places: dict[str, tuple[int, int]] = {}
    for row, line in enumerate(picture.splitlines()):
        wing, *folders = line.split()
        for place, folder in enumerate(folders or [wing.strip("/")]):
            assert folder not in places, f"{folder} is drawn twice"
            assert (ROOT / "paceline" / (wing if folders else "") / folder).is_dir(), f"{wing} has no {folder}"
            places[folder] = (row, place)
    return places


def test_the_picture_of_the_house_has_what_a_folder_sees_above_it_or_to_its_left() -> None:
    places = drawn_places(next(text for _, text in DOCUMENTS[ROOT / "ARCHITECTURE.md"].blocks))
    folders = links_of_folders()
    assert places.keys() == folders.keys()
    parts = {"commit_log": "server", "cuda_kernels": "cuda", "host_kernels": "cuda"}  # targets of their own
    for name, links in folders.items():
        seen = {parts.get(link, link) for link in links} - {name}
        wrong = {link for link in seen if places[link] >= places[name]}
        assert not wrong, f"{name} sees {', '.join(sorted(wrong))}, which the picture has below it or to its right"


@pytest.mark.parametrize("name, most", [("ARCHITECTURE.md", 12 << 10), ("CONTRIBUTING.md", 8 << 10)])
def test_the_pages_for_people_who_change_the_source_are_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_bytes()) <= most


def test_the_walks_of_the_architecture_name_functions_that_exist() -> None:
    source = "".join(path.read_text() for kind in ("h", "cc") for path in (ROOT / "paceline").rglob(f"*.{kind}"))
    spans = DOCUMENTS[ROOT / "ARCHITECTURE.md"].spans
    named = {span for span in spans if re.fullmatch(r"\w+::\w+(\(\w+\))?", span)}
    assert len(named) > 20
    for owner, function, argument in (re.match(r"(\w+)::(\w+)(?:\((\w+)\))?", span).groups() for span in named):
        # Outside of the class, inside of the class, or a class of a namespace.
        taken = rf"\(([^)]*, )?const [\w:]*\b{argument}&" if argument else r"\b"
        outside = rf"\b{owner}::{function}{taken}"
        inside = rf"class {owner}\b(?:(?!\n}}).)*\b{function}{taken}"
        in_space = rf"namespace paceline::{owner} (?:.*?)\b(?:class|struct) {function}\b"
        found = [pattern for pattern in (outside, inside, in_space) if re.search(pattern, source, re.DOTALL)]
        assert found, f"there is no {owner}::{function}"
