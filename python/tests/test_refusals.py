"""Every refusal that the author of a program may see says what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fake_member import PACKAGE

# A fault of the worker, of the system, or between processes: nobody can write another thing in the program.
FAULTS = {"channel.py", "device_memory.py", "memories.py", "session.py", "stage_message.py", "binding_by_memory.py"}
# These say the choices themselves, get more words from a function, or are not of the program.
OTHERS = (
    "the servers step with {…}",
    "Paceline sent ",
    "process {…} of this worker ",
    "it is called as evaluate(model) or evaluate()",
    "is neither ",
    "it is more than 0",
    "groups may differ in numbers only",
    "node {…}: {…}",
    "host {…}: {…}",
)


def text_of(node: ast.expr) -> str:
    """The text that this makes, with {…} for each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.IfExp):
        return f"{text_of(node.body)} | {text_of(node.orelse)}"
    return "{…}"


def refusals() -> Iterator[tuple[str, str]]:
    """The place and the text of each."""
    package = Path(PACKAGE) / "paceline"
    for file in sorted(package.rglob("*.py")):
        if file.name in FAULTS:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PacelineError":
                yield f"{file.relative_to(package)}:{node.lineno}", text_of(node.args[0])


def test_each_says_what_to_write_instead() -> None:
    texts = dict(refusals())
    assert len(texts) > 70
    silent = [
        f"{where}: {part}"
        for where, text in texts.items()
        for part in text.split(" | ")
        if part != "{…}" and "; " not in part and not any(other in part for other in OTHERS)
    ]
    assert not silent, "\n".join(silent)
