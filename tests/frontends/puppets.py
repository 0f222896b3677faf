"""Stand-ins for what is on either side of a door: the engine behind it, the client before it."""

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from uvicorn.config import Config
from uvicorn.server import ServerState

from xirang.core.signature import TensorSpec
from xirang.engine.call import Answer, Ran
from xirang.errors import Cancelled, InvalidRequest, UnknownModel
from xirang.frontends.wire.http import serve_protocol
from xirang.tensors.tensor import Tensor, to_array
from xirang.text.folder import TextFolder
from xirang.text.task import Task
from xirang.text.tokenizer import USUAL, TextTooLong, Tokens


@dataclass
class PuppetModel:
    name: str
    inputs: tuple
    outputs: tuple
    version: str = "1"
    platform: str = "python"
    is_ready: bool = True
    budget_ns: int = 10_000_000_000
    config: dict = field(default_factory=dict)
    labels: dict = field(default_factory=dict)

    @property
    def versions(self):
        return (self.version,)


def spec(name, datatype, *dims):
    return TensorSpec(name, datatype, dims)


def echo_model(name="echo", datatype="FP32", version="1"):
    return PuppetModel(
        name, (spec("x", datatype, None, None),), (spec("x", datatype, None, None),), version
    )


def answer_of(outputs, version="1"):
    """An answer with those outputs, from a run of its own."""
    return Answer(outputs, 0, Ran(1, 0.0, 0, 0), version=version)


@dataclass
class PuppetTicket:
    call: object
    is_cancelled: bool = False

    def cancel(self):
        if not self.is_cancelled:
            self.is_cancelled = True
            self.call.reply(Cancelled("gone"))


class PuppetService:
    """Keeps the calls until told: an answer is the inputs again, under the names asked for."""

    def __init__(self, *models, is_prompt=False):
        self.models = {model.name: model for model in models or (echo_model(),)}
        self.calls = deque()
        self.tickets = []
        self.is_prompt = is_prompt
        self.refusal = None
        self.time_ns = 0
        self.is_up = True
        self.watches = []
        self.off = set()

    def submit(self, call):
        self.model(call.model, call.version)
        if self.refusal is not None:
            raise self.refusal
        ticket = PuppetTicket(call)
        self.tickets.append(ticket)
        self.calls.append(call)
        if self.is_prompt:
            self.answer()
        return ticket

    def answer(self, result=None):
        """Answer the oldest call, with its own inputs or with what is given."""
        call = self.calls.popleft()
        call.reply(result if result is not None else self.echo(call))

    def echo(self, call):
        arrays = {name: to_array(tensor) for name, tensor in call.inputs.items()}
        names = call.outputs or tuple(arrays)
        version = self.models[call.model].version
        return answer_of({name: arrays[name] for name in names}, version)

    def model(self, name, version=None):
        if name not in self.models:
            raise UnknownModel(f"Request for unknown model: '{name}' is not found")
        model = self.models[name]
        if version is not None and version != model.version:
            raise UnknownModel(
                f"Request for unknown model: '{name}' version {version} is not found"
            )
        return model

    def now_ns(self):
        return self.time_ns

    def index(self, *, only_ready=False):
        states = {True: "READY", False: "UNAVAILABLE"}
        return [
            {"name": each.name, "version": each.version, "state": states[each.is_ready]}
            for each in self.models.values()
            if each.is_ready or not only_ready
        ]

    def model_names(self):
        return list(self.models)

    def is_off(self, function):
        return function in self.off

    def is_live(self):
        return self.is_up

    def is_ready(self):
        return self.is_up and all(model.is_ready for model in self.models.values())

    def statistics(self, name=None):
        names = self.models if name is None else [name]
        versions = {each: self.models[each].version for each in names}
        return {"model_stats": [{"name": n, "version": v} for n, v in versions.items()]}

    def metrics_text(self, *, is_open=False):
        end = "# EOF\n" if is_open else ""
        return "# TYPE xirang_requests_total counter\nxirang_requests_total 3\n" + end

    def memory(self):
        return {"capacity_bytes": 8, "held_bytes": 3, "shares": []}

    def costs(self):
        return {"models": [{"model": name} for name in self.models]}

    def watch(self):
        watch = PuppetWatch()
        self.watches.append(watch)
        return watch


class PuppetWatch:
    """Numbers its frames."""

    def __init__(self):
        self.bounds = {"spans_ms": [1.0], "batch_rows": [1]}
        self.frames = 0
        self.is_closed = False
        self.end = {"is_draining": False, "is_off": False}

    def frame(self):
        assert not self.is_closed
        self.frames += 1
        return {"now_ms": self.frames * 1000.0, "models": []} | self.end

    def close(self):
        self.is_closed = True


class PuppetText:
    """Tokens are the letters' code points; the embedding of ids is made from their sum."""

    def __init__(self, task=Task.EMBED, labels=(), shift=0, **folder):
        self.task = task
        self.output = "sentence"
        self.hidden = "states"
        self.dimension = len(labels) or 4
        self.vocabulary_size = 128
        self.length_max = 9000
        self.labels = tuple(labels)
        self.shift = shift
        self.folder = TextFolder(Path("tokenizer.json"), is_normalised=False, **folder)

    def encode(self, text, manner=USUAL):
        ids = [
            (ord(letter) + self.shift) % 128 for letter in self.prompt(manner.prompt_name) + text
        ]
        if len(ids) > self.length_max:
            if not manner.truncate:
                raise TextTooLong(f"the text has {len(ids)} tokens; expected {self.length_max}")
            ids = ids[-self.length_max :] if manner.is_cut_left else ids[: self.length_max]
        return Tokens(ids)

    def encode_pair(self, first, second, manner=USUAL):
        both = self.encode(first, manner).ids, self.encode(second, manner).ids
        return Tokens([*both[0], *both[1]], [0] * len(both[0]) + [1] * len(both[1]))

    def prompt(self, name):
        if name and name not in self.folder.prompts:
            raise InvalidRequest(f"no prompt '{name}'")
        return self.folder.prompts.get(name or self.folder.default_prompt, "")

    def pieces(self, text, *, has_specials):
        return [{"id": ord(letter), "special": has_specials} for letter in text]

    def decode(self, ids, *, has_specials):
        return "".join(map(chr, ids)) + "!" * has_specials

    def pooled(self, hidden, *, is_normalised):
        return hidden.sum(axis=(0, 1))

    def inputs(self, tokens):
        array = np.array([tokens.ids], np.int64)
        return {"input_ids": Tensor("INT64", array.shape, array.tobytes())}


def embed(call):
    """The answer that goes with `PuppetText`."""
    total = float(to_array(call.inputs["input_ids"]).sum())
    return answer_of({"sentence": np.array([[total, 0, 3, 4]], np.float32)})


class Line:
    """An asyncio transport that keeps what is written to it, and is strict as uvloop's is."""

    def __init__(self):
        self.sent = b""
        self.closed = False
        self.is_paused = False
        self.has_sent_eof = False

    def write(self, data):
        if self.closed:
            raise RuntimeError("unable to perform operation on a closed transport")
        assert not self.has_sent_eof
        self.sent += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.has_sent_eof = True

    def pause_reading(self):
        assert not self.closed
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self):
        assert not self.closed
        assert self.is_paused
        self.is_paused = False

    def get_extra_info(self, name, default=None):
        return default

    def take(self):
        """What was sent since the last take."""
        sent, self.sent = self.sent, b""
        return sent


class PuppetLoop:
    """A loop whose time moves only when told."""

    def __init__(self):
        self.now = 100.0
        self.timers = []
        self.tasks = []

    def time(self):
        return self.now

    def call_later(self, delay, callback, *arguments):
        timer = SimpleNamespace(due=self.now + delay, callback=callback, is_off=False)
        timer.cancel = lambda: setattr(timer, "is_off", True)
        self.timers.append(timer)
        return timer

    def advance(self, seconds):
        end = self.now + seconds
        while due := [t for t in self.timers if not t.is_off and t.due <= end]:
            timer = min(due, key=lambda t: t.due)
            self.timers.remove(timer)
            self.now = timer.due
            timer.callback()
        self.now = end

    def create_task(self, coroutine):
        task = PuppetTask(coroutine)
        self.tasks.append(task)
        return task

    def run_tasks(self):
        """Let each task run until it waits for something."""
        for task in list(self.tasks):
            if task.step():
                self.tasks.remove(task)


class PuppetTask:
    def __init__(self, coroutine):
        self.coroutine = coroutine
        self.callbacks = []

    def add_done_callback(self, callback):
        self.callbacks.append(callback)

    def step(self):
        try:
            self.coroutine.send(None)
        except StopIteration:
            for callback in self.callbacks:
                callback(self)
            return True
        return False

    def __hash__(self):
        return id(self)


@dataclass
class Response:
    status: int
    headers: dict
    body: bytes


def responses(sent):
    """Parse all that a connection has sent; it must be whole responses."""
    found = []
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        pairs = [line.decode().split(": ", 1) for line in lines[1:]]
        headers = dict(pairs)
        assert len(headers) == len(pairs), "no header twice"
        size_bytes = int(headers.get("content-length", 0))
        assert len(rest) >= size_bytes
        found.append(Response(int(lines[0].split()[1]), headers, rest[:size_bytes]))
        sent = rest[size_bytes:]
    return found


def post(url, body=b"", *headers, version="1.1"):
    """The bytes of a request."""
    lines = [f"POST {url} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(url, *headers, verb="GET", version="1.1"):
    return "\r\n".join([f"{verb} {url} HTTP/{version}", "host: x", *headers, "", ""]).encode()


def connect(match, *, app=None, beside=None, **limits):
    """One connection to a server of these routes: the protocol, its transport and its loop.

    With `beside` it is one more of the same server.
    """
    kind = serve_protocol(match, **limits) if beside is None else type(beside)
    config = Config(app or cold_echo, http=kind, log_config=None, lifespan="off")
    config.load()
    loop, line = PuppetLoop(), Line()
    state = ServerState() if beside is None else beside.server_state
    protocol = kind(config, state, {}, loop)
    protocol.connection_made(line)
    return protocol, line, loop


class Later:
    """Await it to be run again at the next `run_tasks`."""

    def __await__(self):
        yield


async def cold_echo(scope, receive, send):
    """Answers at the second step with the path it was asked for."""
    await receive()
    await Later()
    body = scope["path"].encode()
    length = str(len(body)).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
    )
    await send({"type": "http.response.body", "body": body})
