"""The load generator: `xirang load`, and the same as functions for demo and benchmarks."""

from xirang.lab.load.apart import run_on_loop, run_point_apart
from xirang.lab.load.client import Fault, Target
from xirang.lab.load.command import add_load, load_command
from xirang.lab.load.page import load_report
from xirang.lab.load.payloads import Lengths, Payloads, TensorShape
from xirang.lab.load.plan import ArrivalPlan, ClosedLoop, OpenLoop, Trace, read_trace
from xirang.lab.load.point import Progress, run_point
from xirang.lab.load.result import PointResult
from xirang.lab.load.scrape import ServerFigures

__all__ = [
    "ArrivalPlan",
    "ClosedLoop",
    "Fault",
    "Lengths",
    "OpenLoop",
    "Payloads",
    "PointResult",
    "Progress",
    "ServerFigures",
    "Target",
    "TensorShape",
    "Trace",
    "add_load",
    "load_command",
    "load_report",
    "read_trace",
    "run_on_loop",
    "run_point",
    "run_point_apart",
]
