"""Find out by running what a model's declaration does not tell, before it serves anybody.

Batching must never change an answer. So at load the model runs small made-up requests alone,
together, and padded; it is compared with itself, and believed rather than its declared shapes:
which axes count rows, which move together, whether rows may share a run at all, whether and with
what they may be padded, how long runs take, and from which size on larger ones stop paying.

`course.py` is the way through the other files.
"""

from xirang.engine.probe.course import probe
from xirang.engine.probe.declared import SHARED, Declared
from xirang.engine.probe.findings import Findings, Kind, Ran
from xirang.engine.probe.timing import LENGTHS, ROWS

__all__ = ["LENGTHS", "ROWS", "SHARED", "Declared", "Findings", "Kind", "Ran", "probe"]
