"""The characters that ddddocr's model knows, out of its package's source."""

import ast
import json
from pathlib import Path


def build(root: Path, home: Path) -> None:
    """Write them as JSON; the source is read, not run."""
    source = (root / "sources" / "ddddocr_characters.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "_get_beta_charset":
            lists = [each for each in ast.walk(node) if isinstance(each, ast.List)]
            characters = ast.literal_eval(max(lists, key=lambda each: len(each.elts)))
            (home / "characters.json").write_text(json.dumps(characters))
            return
    raise ValueError("the package's source has no list of characters")
