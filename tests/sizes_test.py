"""Keeps files and functions short: no file above MOST_FILE_LINES lines, no function above MOST_FUNCTION_LINES.

sizes_allowed.txt names the exceptions, a line each: a file, or a file and a function. That list may only shrink: the
test fails if a file or function outside the list is too long, and also if one in the list is short enough by now.

  sizes_test.py           the test
  sizes_test.py --list    all that is too long, with its lines
"""

import ast
import bisect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tests" / "sizes_allowed.txt"
FOLDERS = ("paceline", "tests", "bench", "python")
KINDS = (".h", ".cc", ".cu", ".py", ".js")

MOST_FILE_LINES, MOST_FUNCTION_LINES = 450, 70

# Comments, strings and characters are blanked, so that their braces do not count. A preprocessor line goes too.
CPP_TOKEN = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|/\*.*?\*/"
    r"|//[^\n]*"
    r"|^[ \t]*\#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
# The text before the brace of a function: its name and arguments, then qualifiers, a result or members' initial values.
HEAD = re.compile(r"(?P<name>[\w:~]+|operator\s*\S+?)\s*\((?:[^;{}]*)\)[^;{}()]*$|\)\s*$")
NO_FUNCTION = re.compile(r"(?:^|[^\w])(?:if|for|while|switch|catch|else|do|namespace|class|struct|enum|union)\b")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def cpp_functions(text):
    """Functions and tests at the level of a namespace or a class: name, number of lines."""
    code = CPP_TOKEN.sub(blank, text)
    begins = [0, *(match.end() for match in re.finditer("\n", code))]

    def line_of(at):
        return bisect.bisect_right(begins, at)

    open_braces = []  # for each: the name of a function, or None, and its first line
    inside = 0  # functions that are open
    head_begin = 0
    for match in re.finditer(r"[;{}]", code):
        at, sign = match.start(), match.group()
        head = code[head_begin:at]
        if sign == "{":
            name = None
            if not inside and "(" in head and not NO_FUNCTION.match(head.lstrip()):
                found = HEAD.search(head)
                first = re.search(r"([\w:~]+)\s*\(([^()]*)", head)
                if found and first:
                    name = first[1]
                    if name.startswith("TEST"):
                        name += "(" + " ".join(first[2].split()) + ")"
            inside += name is not None
            open_braces.append((name, line_of(head_begin + len(head) - len(head.lstrip()))))
        elif sign == "}" and open_braces:
            name, first_line = open_braces.pop()
            if name is not None:
                inside -= 1
                yield name, line_of(at) - first_line + 1
        head_begin = at + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.end_lineno - node.lineno + 1


def too_long():
    """Everything that is too long: its name as sizes_allowed.txt has it, and its lines."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in KINDS or not file.is_file() or "build" in file.parts:
                continue
            name, text = str(file.relative_to(ROOT)), file.read_text()
            if text.count("\n") > MOST_FILE_LINES:
                yield name, text.count("\n")
            if file.suffix == ".js":
                continue
            functions = python_functions(text) if file.suffix == ".py" else cpp_functions(text)
            for function, lines in functions:
                if lines > MOST_FUNCTION_LINES:
                    yield f"{name} {function}", lines


def main(words):
    found = dict(too_long())
    if words == ["--list"]:
        for name, lines in found.items():
            print(f"{lines:5} {name}")
        return 0
    allowed = set(ALLOWED.read_text().splitlines())
    for name in sorted(found.keys() - allowed):
        most = MOST_FUNCTION_LINES if " " in name else MOST_FILE_LINES
        print(f"{name}: {found[name]} lines, and at most {most} are allowed. Cut it by what its parts are about")
    for name in sorted(allowed - found.keys()):
        print(f"{name} is not too long any more: take it out of {ALLOWED.name}")
    return found.keys() != allowed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
