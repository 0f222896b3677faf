"""One request's part in a run, as an instance's work takes it."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from xirang.backends.requests import About, Responded
from xirang.engine.extent import Extent
from xirang.tensors.tensor import Tensor


class Member(msgspec.Struct, gc=False):
    """One request's part in a run.

    Attributes:
        inputs: Name to tensor.
        extent: Its rows and lengths.
        wanted: Names of the outputs it asked for.
        about: What its client says of it, for models that take requests.
        take_part: Takes parts of its answer as they come, on the loop's thread; None if it is
            answered once.
    """

    inputs: Mapping[str, Tensor]
    extent: Extent
    wanted: Sequence[str]
    about: About | None = None
    take_part: Callable[[Responded], None] | None = None
