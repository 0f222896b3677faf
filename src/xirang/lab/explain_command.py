"""The command `xirang explain`: why a recorded request was answered when it was."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from xirang.errors import XirangError
from xirang.lab.replay import ended_runs
from xirang.lab.simulate_report import make_console
from xirang.observe.explain import Explanation, explain_id
from xirang.observe.recording import Kind, Recording

if TYPE_CHECKING:
    from argparse import _SubParsersAction

ENDS = {
    Kind.REJECT: "it was turned away at the door",
    Kind.CANCEL: "its client went away while it waited",
    Kind.EXPIRE: "its budget could not be kept any more",
}
"""What else may have become of a request."""


def add_explain(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `explain` with its options."""
    parser = subparsers.add_parser(
        "explain",
        help="why a recorded request was answered when it was",
        description="Read the decision about one request back from what `xirang serve --record` "
        "wrote: lane, window, trigger, slack, company, padding, and its share of device time. "
        "A live server tells the same in the header X-Xirang-Explain, to who sends it as 1.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("request", type=int, metavar="REQUEST", help="the request's number")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=explain_command)


def explain_command(args: argparse.Namespace) -> int:
    """Show it; 1 if the request did not run, 2 if the file cannot be read."""
    try:
        recording = Recording(args.file)
        found = find(recording, args.request)
        console = make_console(is_quiet=False)
        if found is None:
            sys.stderr.write(f"xirang explain: request {args.request} did not run: ")
            sys.stderr.write(f"{what_became_of(recording, args.request)}\n")
            return 1
    except XirangError as error:
        sys.stderr.write(f"xirang explain: {error}\n")
        return 2
    if args.json:
        console.print(orjson.dumps(found.as_json()).decode(), markup=False)
    else:
        for name, value in found.as_json().items():
            shown = "none" if value is None else value
            console.print(f"{name.replace('_', ' '):<16}{shown}", markup=False)
    return 0


def find(recording: Recording, request_id: int) -> Explanation | None:
    """The explanation of a request; None if it is in no run that ended."""
    for event in ended_runs(recording):
        found = explain_id(event, request_id)
        if found is not None:
            return found
    return None


def what_became_of(recording: Recording, request_id: int) -> str:
    """A sentence for a request that did not run."""
    is_known = False
    for turn in recording.turns():
        for record in [*turn.facts, *turn.decisions]:
            if record.id == request_id and record.kind in ENDS:
                return ENDS[Kind(record.kind)]
            is_known = is_known or (record.id == request_id and record.kind == Kind.SUBMIT)
    return "it still waited or ran at the end" if is_known else "it is not in the recording"
