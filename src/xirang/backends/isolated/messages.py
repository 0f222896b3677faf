"""What a server and its worker process say to each other, over a socket pair.

The server asks and the worker answers; in between, a worker whose model asks other models
asks the server, and one whose model answers in parts hands them out.
"""

import msgspec

from xirang.backends.isolated.segment import Placed
from xirang.backends.requests import About, Responded, code_of
from xirang.core.memory.polynomial import Polynomial, Size
from xirang.core.signature import TensorSpec
from xirang.errors import XirangError


class Load(msgspec.Struct, tag=True, frozen=True):
    """Load a model.

    Attributes:
        kind: "python", "onnx", "torch", "torch module" or "triton python".
        target: Import path of a callable or a module, or path of a file.
        name: Under which it is served.
        threads: Inside one run.
        device: Where PyTorch runs.
        options: More that a model of this kind wants to know.
        instance: Which of the model's processes this is.
        tells_memory: Whether it says after each run how much it holds.
        is_governed: Whether its memory is to be planned and shared with other models.
    """

    kind: str
    target: str
    name: str
    threads: int = 1
    device: str = "auto"
    options: dict[str, str] = {}
    instance: int = 0
    tells_memory: bool = False
    is_governed: bool = False


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """It is loaded; what it declares.

    Attributes:
        platform: As of `Executable`, and so are the inputs and outputs.
        device: Where it runs.
        bounds: Least and greatest sizes of symbols in its shapes, where it has some.
        takes_lists: Whether it can be asked with lists.
        is_packed: Whether it takes sequences end to end.
        takes_requests: Whether it is asked with requests.
        is_decoupled: Whether each of them may have another number of answers than one.
        optional: Names of inputs that a request may leave out.
        declared: The model's configuration as it completed it, as JSON; empty for none.
        held_bytes: Memory that is the process's own.
    """

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    device: str
    bounds: dict[str, tuple[int, int | None]]
    takes_lists: bool
    is_packed: bool
    takes_requests: bool = False
    is_decoupled: bool = False
    optional: tuple[str, ...] = ()
    declared: str = ""
    held_bytes: int = 0


class Feed(msgspec.Struct, frozen=True, array_like=True):
    """Inputs of one tiny run.

    Attributes:
        tensors: How many of those that are placed are its own.
        rows: Of the run.
        length: Of its rows; each where there are several.
    """

    tensors: int
    rows: int
    length: Size


class Study(msgspec.Struct, tag=True, frozen=True):
    """Find out how much memory the model's runs take.

    Attributes:
        placed: Inputs in the server's segment, feed by feed.
        size_bytes: As of `Ask`.
        feeds: Tiny runs to learn from.
        wanted: Names of outputs.
        inputs: What the inputs of a run take, as those who fill them have them.
        lengths: For which plans are made, the largest last.
        rows: Of the largest run.
        worth_bytes: If that takes less, runs are left alone.
    """

    placed: list[Placed]
    size_bytes: int
    feeds: list[Feed]
    wanted: list[str]
    inputs: list[Polynomial]
    lengths: list[Size]
    rows: int
    worth_bytes: int


class Studied(msgspec.Struct, tag=True, frozen=True):
    """What was found.

    Attributes:
        peaks: What a run takes: the largest of these; none if the model allocates as it likes.
        planning: How much of it is planned, in words, if the library says.
        held_bytes: As of `Loaded`.
    """

    peaks: list[Polynomial]
    planning: str
    held_bytes: int


class Lend(msgspec.Struct, tag=True, frozen=True):
    """Here are the addresses of an arena; runs may use what is leased to them.

    Attributes:
        number: By which it is named.
        size_bytes: Of the file whose descriptor comes along.
    """

    number: int
    size_bytes: int


class Lent(msgspec.Struct, tag=True, frozen=True):
    """They are mapped."""


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """What a run may use.

    Attributes:
        arena: Its number.
        rows: Of the run, filler included.
        length: What its rows are padded to; each where there are several.
        floor_bytes: Below this lie its inputs.
        size_bytes: Up to here it may reach.
        cuts: How often pages were taken from the arena: others may have come in their place.
    """

    arena: int
    rows: int
    length: Size
    floor_bytes: int
    size_bytes: int
    cuts: int


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Run the model.

    Attributes:
        placed: Inputs in the server's segment; in a list each name once a row.
        size_bytes: Of that segment if it is new (its descriptor comes along), else 0.
        wanted: Names of outputs.
        is_list: Whether the rows need not be of one shape.
        lease: Where the run takes its memory; None if it allocates as it likes.
    """

    placed: list[Placed]
    size_bytes: int
    wanted: list[str]
    is_list: bool
    lease: Lease | None = None


class Told(msgspec.Struct, tag=True, frozen=True):
    """It ran.

    Attributes:
        placed: Outputs in the worker's segment.
        size_bytes: Of that segment if it is new, else 0.
        resident_bytes: Memory that the worker holds, if it tells that, else 0.
        peak_bytes: How far a run with a lease has reached.
        pinned_bytes: Below this something outlived its run in the arena.
        is_planned: Whether all of it lay where it was planned.
    """

    placed: list[Placed]
    size_bytes: int
    resident_bytes: int
    peak_bytes: int = 0
    pinned_bytes: int = 0
    is_planned: bool = False


class One(msgspec.Struct, frozen=True, array_like=True):
    """One request of several.

    Attributes:
        tensors: How many of those that are placed are its own.
        wanted: Names of outputs.
        about: What its client says of it.
    """

    tensors: int
    wanted: list[str]
    about: About


class AskEach(msgspec.Struct, tag=True, frozen=True):
    """Run the model with requests as they are.

    Attributes:
        placed: Their inputs in the server's segment, request by request.
        size_bytes: As of `Ask`.
        requests: In the same order.
    """

    placed: list[Placed]
    size_bytes: int
    requests: list[One]


class Response(msgspec.Struct, frozen=True, array_like=True):
    """What one request gets.

    Attributes:
        tensors: How many of those that are placed are its own.
        error: What is wrong with it; None if nothing is.
        code: Of the error.
    """

    tensors: int
    error: str | None = None
    code: int = 0


class ToldEach(msgspec.Struct, tag=True, frozen=True):
    """It ran.

    Attributes:
        placed: Outputs in the worker's segment, request by request.
        size_bytes: As of `Told`.
        resident_bytes: As of `Told`.
        responses: One a request, in order.
    """

    placed: list[Placed]
    size_bytes: int
    resident_bytes: int
    responses: list[Response]


class AskOther(msgspec.Struct, tag=True, frozen=True):
    """The model asks another one of the same server.

    Attributes:
        number: That its answer shall bear.
        model: Name of the other model.
        version: Empty for whichever serves.
        placed: Inputs.
        size_bytes: Of the segment that came along for them.
        wanted: Names of outputs.
        about: What the model says of the request.
    """

    number: int
    model: str
    version: str
    placed: list[Placed]
    size_bytes: int
    wanted: list[str]
    about: About


class OtherTold(msgspec.Struct, tag=True, frozen=True):
    """What the other one answered.

    Attributes:
        number: Of the question.
        placed: Outputs.
        size_bytes: Of the segment that came along for them, if any did.
        response: How it went.
    """

    number: int
    placed: list[Placed]
    size_bytes: int
    response: Response


class Part(msgspec.Struct, tag=True, frozen=True):
    """One of several answers to a request of the run that is still going on.

    Attributes:
        index: Of the request in the run.
        placed: Outputs.
        size_bytes: Of the segment that came along for them, if any did.
        response: How it went.
    """

    index: int
    placed: list[Placed]
    size_bytes: int
    response: Response


class Raised(msgspec.Struct, tag=True, frozen=True):
    """It raised.

    Attributes:
        kind: Name of the exception's class.
        text: Its message.
        trace: Where it came from, for the log.
        needed_bytes: Of a lease that was too small: what would have been enough.
    """

    kind: str
    text: str
    trace: str
    needed_bytes: int = 0


Task = Load | Study | Lend | Ask | AskEach
"""What the server wants of its worker."""

Message = Task | Loaded | Studied | Lent | Told | Raised | ToldEach | Part | AskOther | OtherTold


def response_of(result: Responded) -> Response:
    """How it went, without the outputs."""
    if isinstance(result, XirangError):
        return Response(0, str(result), code_of(result))
    return Response(len(result))
