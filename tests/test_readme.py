"""What the README and the pages of docs show is true: Python runs, links lead somewhere.

Each ```python block is executed as it stands, in a folder of its own in which `models/` holds the
demo's model. Lines of shell are not run; their `xirang` commands and options must exist.
"""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from xirang import cli
from xirang.repository import minilm

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md") for path in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def blocks_of(page):
    """Language and text of every fenced block."""
    found = BLOCK.findall(page.read_text())
    return [
        (language, re.sub(rf"^{indent}", "", text, flags=re.M)) for indent, language, text in found
    ]


def named(pairs):
    return [
        pytest.param(page, text, id=f"{page.relative_to(ROOT)}-{number}")
        for number, (page, text) in enumerate(pairs)
    ]


PYTHON = [
    (page, text) for page in PAGES for language, text in blocks_of(page) if language == "python"
]
SHELL = [
    (page, text)
    for page in PAGES
    for language, text in blocks_of(page)
    if language in ("", "bash", "sh", "console", "shell")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    minilm.prepare(folder / "models")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("page", "text"), named(PYTHON))
def test_python_blocks_run(page, text, folder):
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def commands_in(text):
    """The `xirang` command lines of a block, continued lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        found = re.match(r"(?:\$ )?(?:[\w./]*/)?xirang (\w[^|&#]*)", line.strip())
        if found and "…" not in line:
            yield shlex.split(found[1])


@pytest.mark.parametrize(
    ("page", "command"),
    [
        pytest.param(page, command, id=f"{page.relative_to(ROOT)}: {' '.join(command)}")
        for page, text in SHELL
        for command in commands_in(text)
    ],
)
def test_commands_are_understood(page, command):
    cli._parser().parse_args(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(BLOCK.sub("", page.read_text())):
        target = link.partition("#")[0]
        if target and "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {link}"
        elif link.startswith("#"):
            assert link[1:] in anchors(page), f"{page.name} links to {link}"
        if target.endswith(".md") and "#" in link and "://" not in link:
            anchor = link.partition("#")[2]
            assert anchor in anchors(page.parent / target), f"{page.name} links to {link}"


def anchors(page):
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }
