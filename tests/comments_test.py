"""Counts the comments that begin without their subject. The number may only fall.

A comment has a subject and a verb, or is a noun phrase that could follow "This is". Comments that begin with one of
WORDS are neither: "Of the job", "what waits", "as above". Fails if more comments begin so than comments_allowed.txt
says, and also if fewer do, until that file has the lower number.

  comments_test.py                   the test
  comments_test.py --list [FOLDER]   the comments in question
  comments_test.py --count           their number in each folder
"""

import ast
import collections
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tests" / "comments_allowed.txt"
FOLDERS = ("paceline", "tests", "bench", "python")

WORDS = "of|what|where|that|those|one that|whoever|as|by|it|they|nor|nobody|also|and"
BEGINS_SO = re.compile(rf"(?:{WORDS})\b(?![-_(:.<])", re.IGNORECASE)

# Strings come first, so that "http://" is no comment.
CPP_TOKEN = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|/\*.*?\*/"
    r"|//(?P<text>[^\n]*)",
    re.DOTALL,
)


def lines_of_cpp(text):
    """Every // comment: its line, its column, whether code precedes it, its text."""
    for token in CPP_TOKEN.finditer(text):
        if token["text"] is not None:
            begin = text.rfind("\n", 0, token.start()) + 1
            after_code = text[begin : token.start()].strip() != ""
            yield text.count("\n", 0, begin) + 1, token.start() - begin, after_code, token["text"].strip()


def lines_of_python(text):
    """Every # comment, as lines_of_cpp."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.start[1], token.line[: token.start[1]].strip() != "", token.string[1:].strip()


def docstrings(text):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        words = ast.get_docstring(node) if isinstance(node, kinds) else None
        if words:
            yield node.body[0].lineno, words.splitlines()[0]


def joined(lines):
    """Comments over several lines: lines below each other in one column. Yields the first line and the whole text."""
    comment = None
    for line, column, after_code, text in lines:
        if comment and not after_code and line == last + 1 and column == comment[1]:
            comment[2].append(text)
        else:
            if comment:
                yield comment[0], " ".join(comment[2])
            comment = (line, column, [text])
        last = line
    if comment:
        yield comment[0], " ".join(comment[2])


def comments(file):
    text = file.read_text()
    if file.suffix == ".py":
        return [*joined(lines_of_python(text)), *docstrings(text)]
    return list(joined(lines_of_cpp(text)))


def headless(folder):
    """The comments below a folder that begin with one of WORDS: file, line, text."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    for file in files:
        if file.suffix in (".h", ".cc", ".py"):
            yield from ((file, line, text) for line, text in sorted(comments(file)) if BEGINS_SO.match(text))


def everywhere():
    return [found for folder in FOLDERS for found in headless(ROOT / folder)]


def main(words):
    if words[:1] == ["--list"]:
        folder = pathlib.Path(words[1]).resolve() if len(words) > 1 else ROOT
        if not folder.exists():
            sys.exit(f"{words[1]}: nothing of this name is here")
        found = list(headless(folder)) if len(words) > 1 else everywhere()
        for file, line, text in found:
            print(f"{file.relative_to(ROOT)}:{line}: {text}")
        print(f"{len(found)} comments begin without their subject")
        return 0
    found = everywhere()
    if words == ["--count"]:
        count = collections.Counter("/".join(file.relative_to(ROOT).parent.parts[:2]) for file, _, _ in found)
        for folder, number in sorted(count.items()):
            print(f"{number:5} {folder}")
        print(f"{len(found):5}")
        return 0
    allowed = int(ALLOWED.read_text())
    if len(found) > allowed:
        print(
            f"{len(found)} comments begin without their subject, {allowed} are allowed. Give yours a subject and a verb,"
            ' or make it a noun phrase that could follow "This is"; tests/comments_test.py --list shows all of them'
        )
    elif len(found) < allowed:
        print(f"{len(found)} comments begin without their subject, {allowed} before: write {len(found)} in {ALLOWED.name}")
    return len(found) != allowed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
