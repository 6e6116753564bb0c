"""docs/reference.md names what a run leaves, no more and no less; and every link of the documents leads somewhere."""

import csv
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACELINE = os.environ["PACELINE"]

JOB = """
name = "small"
runs_dir = "{folder}/runs"
batch = 8
epochs = 0.2
[model]
name = "gpt-byte"
width = 16
layers = 1
heads = 2
context = 16
[data]
source = "text:{folder}/text.txt"
train_samples = 400
test_samples = 50
[[device]]
count = 2
"""


def paceline(*words):
    done = subprocess.run([PACELINE, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"paceline {' '.join(words)}: {done.stderr}")
    return done.stdout


def documented(page, heading):
    """The names in the first column of the table below a heading."""
    below = page.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [line for line in below.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        (folder / "text.txt").write_text("".join(f"line {i} says {i * i % 1013}\n" for i in range(2000)))
        (folder / "job.toml").write_text(JOB.format(folder=folder))
        paceline("train", str(folder / "job.toml"), "--virtual", "--quiet")
        (cls.run_folder,) = (folder / "runs").iterdir()
        cls.page = (ROOT / "docs" / "reference.md").read_text()
        cls.summary = json.loads((cls.run_folder / "summary.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, heading, names):
        self.assertEqual(documented(self.page, heading), set(names), heading)

    def test_journal(self):
        journal = sqlite3.connect(f"file:{self.run_folder / 'journal.sqlite'}?mode=ro", uri=True)
        tables = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        headings = set(re.findall(r"\n### Table `(\w+)`", self.page))
        self.assertEqual(headings, set(tables))
        for table in tables:
            self.check(f"### Table `{table}`", [row[1] for row in journal.execute(f"PRAGMA table_info({table})")])
        journal.close()

    def test_metrics(self):
        lines = [json.loads(line) for line in (self.run_folder / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual({line["kind"] for line in lines}, {"snapshot", "evaluation"})
        for line in lines:
            self.check(f"### Line `{line['kind']}`", line)

    def test_summary(self):
        self.check("### Object `summary.json`", self.summary)
        self.check("### Object `summary`", self.summary["summary"])
        self.check("### Object `replicas`", self.summary["replicas"][0])
        self.check("### Object `time`", self.summary["time"])
        self.check("### Object `devices`", self.summary["time"]["devices"][0])

    def test_tables(self):
        out = pathlib.Path(self.folder.name) / "csv"
        paceline("export", str(self.run_folder), "--csv", str(out))
        self.check("### Files", [file.stem for file in out.glob("*.csv")])
        for file in out.glob("*.csv"):
            row = re.search(rf"\n\| `{file.stem}` \|([^|]*)\|", self.page.split("\n### Files\n", 1)[1])
            columns = re.findall(r"`(\w+)`", row[1])
            with file.open(newline="") as lines:
                head = next(csv.reader(lines))
            self.assertEqual(head[: len(columns)], columns, file.name)
            rest = "a column for each" in row[1] or "one for each" in row[1]
            self.assertTrue(rest or len(head) == len(columns), f"{file.name}: {head}")

    def test_prometheus(self):
        text = paceline("export", str(self.run_folder), "--prometheus", "-")
        sometimes = documented(self.page, "### Metrics that only some runs have")
        self.check("### Metrics", set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)) - sometimes)
        # The metrics of some runs only must at least be in the source.
        source = (ROOT / "paceline/records/exports/prometheus.cc").read_text()
        for name in sometimes:
            self.assertIn(f'"{name.removeprefix("paceline_")}"', source)


def anchors(text):
    """The anchors that GitHub makes of the headings."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        broken = []
        for page in pages:
            text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                file = (page.parent / name).resolve() if name else page
                if not file.exists():
                    broken.append(f"{page.name}: {target}: there is no such file")
                elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
                    broken.append(f"{page.name}: {target}: there is no such heading")
        self.assertGreater(len(pages), 10)
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
