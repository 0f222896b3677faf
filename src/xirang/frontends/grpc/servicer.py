"""The gRPC services between bytes and the engine; whatever carries the bytes stands beside it.

Nothing here knows grpcio. A transport hands in a procedure's path, a message and what came with
it, and gets a message or a `Status` back: by callback for infer, without a task for each call.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict

from xirang.backends.requests import Responded
from xirang.core.event import Function
from xirang.engine.call import Answer, Call, Reply
from xirang.errors import XirangError
from xirang.frontends import explaining
from xirang.frontends.errors import NO_ROOM, NoRoom
from xirang.frontends.extensions import Extensions
from xirang.frontends.following import finishing, followed_call, following
from xirang.frontends.forwarding import with_headers
from xirang.frontends.grpc.cold import OPEN, ColdRpcs, Rpc, version_of
from xirang.frontends.grpc.infer import encode
from xirang.frontends.grpc.inference import PACKAGE, SCHEMA
from xirang.frontends.grpc.managing import Act, ManagingRpcs
from xirang.frontends.grpc.reading import Asked, Reader, parsed
from xirang.frontends.grpc.standard import HEALTH_PACKAGE
from xirang.frontends.grpc.status import Status, status_of
from xirang.frontends.grpc.wishes import CallWishes, wishes_on
from xirang.frontends.headers import Headers
from xirang.frontends.keys import Keys
from xirang.frontends.restricted import api_of_rpc
from xirang.frontends.service import Repository, Service, Ticket
from xirang.frontends.timing import Stopwatch
from xirang.frontends.v2.delivery import Delivery
from xirang.frontends.v2.kserve import InferRequest
from xirang.frontends.wire.connection import Memory
from xirang.frontends.wire.http import MEMORY_BYTES_MAX
from xirang.observe.witness import Sighting

SERVICE_PATH = f"/{PACKAGE}.GRPCInferenceService/"
INFER_PATH = f"{SERVICE_PATH}ModelInfer"
HEALTH_PATH = f"/{HEALTH_PACKAGE}.Health/"
STREAM_PATH = f"{SERVICE_PATH}ModelStreamInfer"

NONE: Mapping[str, Any] = MappingProxyType({})

NOT_FINAL: Mapping[str, bool | float | str] = {"triton_final_response": False}
"""Of a response that others follow."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """What came with a message.

    Attributes:
        headers: The call's metadata, names in lower case.
        connection: A number that is the same for all calls of a connection.
        time_left_ns: Until the call's deadline; None without one.
        sighting: What is seen of it, if it is followed.
    """

    headers: Mapping[bytes, bytes] = {}
    connection: int = 0
    time_left_ns: int | None = None
    sighting: Sighting | None = None


Unary = Callable[[bytes, Envelope], Awaitable[bytes]]
Finish = Callable[[bytes | Status], None]
"""Gets an encoded `ModelInferResponse` or a `Status`, once; in streams an empty one if there is
nothing to tell."""


class Servicer:
    """All procedures but streams, which `stream.py` makes of it.

    Attributes:
        unary: What is asked seldom, by path; they raise what `status_of` takes.
        health: The one of them that tells whether the server is ready.
        memory: What all unanswered requests take.
        now_ns: The clock that budgets are kept by.
        read: What takes the bytes of a `ModelInferRequest`, and gives what `submit` takes.
    """

    def __init__(
        self,
        service: Service,
        keys: Keys | None = None,
        repository: Repository | None = None,
        *,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
        extensions: Extensions | None = None,
    ) -> None:
        """Serve what a service does.

        Args:
            service: Answers.
            keys: One of them is needed; None: nobody is asked.
            repository: Loads and unloads models; with keys, for those who may. None: not here.
            memory_bytes_max: Of all requests together that are unanswered.
            extensions: Of the protocol.
        """
        self.memory = Memory(memory_bytes_max)
        self.now_ns = service.now_ns
        self._service = service
        self._keys = keys
        self._extensions = extensions or Extensions()
        self._reader = Reader(self._extensions.regions)
        self.read = self._reader.read
        self._checks = self._extensions.grpc_checks
        self._inference_check = self._checks.get("inference")
        cold = ColdRpcs(service, self._extensions, may_turn=repository is not None)
        self.unary: dict[str, Unary] = {
            f"{SERVICE_PATH}{name}": self._unary(f"{PACKAGE}.{name}", rpc, is_open=name in OPEN)
            for name, rpc in cold.by_name().items()
        }
        self.health = self._unary(f"{HEALTH_PACKAGE}.HealthCheck", cold.health, is_open=True)
        self.unary[f"{HEALTH_PATH}Check"] = self.health
        managing = ManagingRpcs(repository)
        for name, act in managing.by_name().items():
            self.unary[f"{SERVICE_PATH}{name}"] = self._managing(f"{PACKAGE}.{name}", act)

    def infer(
        self, message: bytes, envelope: Envelope, reply: Callable[[bytes | Status], None]
    ) -> Ticket | None:
        """Take in a `ModelInferRequest`.

        Args:
            message: Its bytes.
            envelope: What came with it.
            reply: Called once, now or later, with the response's bytes or with what went wrong.

        Returns:
            The right to take it back; None if it has been answered already.
        """
        try:
            return self.submit(self.read(message), envelope, reply)
        except Exception as error:
            reply(status_of(error))
            return None

    def submit(
        self,
        asked: Asked,
        envelope: Envelope,
        finish: Finish,
        *,
        parameters: Mapping[str, bool | float | str] = NONE,
        on_part: Finish | None = None,
    ) -> Ticket:
        """Hand a request to the engine.

        Args:
            asked: What `read` found in its message.
            envelope: What came with it.
            finish: Gets the response.
            parameters: Of the response.
            on_part: Gets responses that come before the last one, where there may be several.

        Raises:
            XirangError: It is not taken in; `finish` will not be called.
        """
        witness = self._extensions.witness
        if witness is None:
            return self._submit(asked, envelope, finish, parameters, on_part)
        path = INFER_PATH if parameters is NONE else STREAM_PATH
        sighting = followed_call(witness, path, envelope.headers, len(asked.data))
        if sighting is None:
            return self._submit(asked, envelope, finish, parameters, on_part)
        envelope = msgspec.structs.replace(envelope, sighting=sighting)
        finish = finishing(witness, sighting, finish)
        try:
            return self._submit(asked, envelope, finish, parameters, on_part)
        except Exception as error:
            witness.ended(sighting, status_of(error).code, 0)
            raise

    def _submit(
        self,
        asked: Asked,
        envelope: Envelope,
        finish: Finish,
        parameters: Mapping[str, bool | float | str],
        on_part: Finish | None,
    ) -> Ticket:
        name, headers = asked.model, envelope.headers
        if self._inference_check is not None:
            self._inference_check(headers)
        wishes = self._wishes(envelope, name)
        version = version_of(asked.version)
        wire = self._reader.tensors_of(asked)
        delivery = None
        if (special := wire.wanted.special) is not None:
            delivery = self._extensions.delivery(special, self._service.model(name, version))
        budget_ns = wishes.budget_of(wire.budget_ns, envelope.time_left_ns)
        is_off = (wire.is_timed or wire.is_explained) and self._service.is_off(Function.TIMING)
        stopwatch = self._stopwatch(name, budget_ns) if wire.is_timed and not is_off else None
        loan = _Loan(self.memory, len(asked.data) + wire.placed_bytes)
        reply: Reply = _Reply(
            finish,
            name,
            wire,
            parameters,
            stopwatch,
            loan,
            wire.is_explained and not is_off,
            delivery,
            on_part is None or asked.wants_empty,
        )
        if (sighting := envelope.sighting) is not None and self._extensions.witness is not None:
            reply = following(self._extensions.witness, sighting, reply, name, wire.id)
        about = wire.about
        if (forward := self._extensions.grpc_forward) is not None:
            about = with_headers(about, headers, forward)
        call = Call(
            name,
            wire.inputs,
            reply,
            version,
            wire.wanted.names,
            budget_ns,
            wishes.priority_of(wire.priority),
            wishes.client,
            wishes.tenant,
            wishes.fast,
            0,
            about,
            take_part=None if on_part is None else self._part_of(asked, on_part),
        )
        loan.take()
        try:
            return _Held(self._service.submit(call), loan)
        except Exception:
            loan.give_back()
            raise

    def _wishes(self, envelope: Envelope, model: str) -> CallWishes:
        """What the metadata wishes of a model; read once for all calls that share it."""
        headers = envelope.headers
        if not isinstance(headers, Headers):
            return wishes_on(envelope.connection, headers, self._keys, model)
        if headers.reader != model:
            headers.read = wishes_on(envelope.connection, headers, self._keys, model)
            headers.reader = model
        wishes: CallWishes = headers.read
        return wishes

    def _part_of(self, asked: Asked, on_part: Finish) -> Callable[[Responded], None]:
        """What makes a response of one part of an answer."""

        def part(responded: Responded) -> None:
            if isinstance(responded, XirangError):
                on_part(status_of(responded))
                return
            try:
                served = self._service.model(asked.model, version_of(asked.version)).version
                response = encode(
                    responded, (asked.model, served), identity=asked.id, parameters=NOT_FINAL
                )
            except Exception as error:
                on_part(status_of(error))
            else:
                on_part(response)

        return part

    def _stopwatch(self, name: str, budget_ns: int | None) -> Stopwatch:
        now_ns = self._service.now_ns
        held_to_ns = self._service.model(name).budget_ns if budget_ns is None else budget_ns
        return Stopwatch(now_ns(), held_to_ns, now_ns)

    def _unary(self, stem: str, rpc: Rpc, *, is_open: bool) -> Unary:
        takes = SCHEMA.message(f"{stem}Request")
        gives = SCHEMA.message(f"{stem}Response")

        check = self._checks.get(api_of_rpc(stem.rpartition(".")[2]))

        async def answer(message: bytes, envelope: Envelope) -> bytes:
            request = parsed(takes, message)
            if check is not None:
                check(envelope.headers)
            if self._keys is not None and not is_open:
                turns = bool(getattr(request, "settings", None))
                (self._keys.admin if turns else self._keys.of)(envelope.headers)
            fields = dict(rpc(request))
            response = ParseDict(fields, gives(), ignore_unknown_fields=True)
            encoded: bytes = response.SerializeToString()
            return encoded

        return answer

    def _managing(self, stem: str, act: Act) -> Unary:
        takes = SCHEMA.message(f"{stem}Request")

        check = self._checks.get(api_of_rpc(stem.rpartition(".")[2]))

        async def answer(message: bytes, envelope: Envelope) -> bytes:
            if check is not None:
                check(envelope.headers)
            if self._keys is not None:
                self._keys.admin(envelope.headers)
            await act(parsed(takes, message))
            return b""

        return answer


class _Loan(msgspec.Struct, gc=False):
    """What a request takes of the memory for requests, until it is answered or taken back."""

    memory: Memory
    size_bytes: int

    def take(self) -> None:
        if self.memory.held_bytes + self.size_bytes > self.memory.bytes_max:
            raise NoRoom(NO_ROOM)
        self.memory.held_bytes += self.size_bytes

    def give_back(self) -> None:
        self.memory.held_bytes -= self.size_bytes
        self.size_bytes = 0


class _Held(msgspec.Struct, frozen=True, gc=False):
    """A ticket, and the loan that ends with it."""

    ticket: Ticket
    loan: _Loan

    def cancel(self) -> None:
        self.ticket.cancel()
        self.loan.give_back()


class _Reply(msgspec.Struct, frozen=True, gc=False):
    """The reply of a call; whatever goes wrong here goes to this one client."""

    finish: Finish
    model: str
    request: InferRequest
    parameters: Mapping[str, bool | float | str]
    stopwatch: Stopwatch | None
    loan: "_Loan"
    is_explained: bool
    delivery: Delivery | None
    wants_empty: bool

    def __call__(self, answer: Answer | XirangError) -> None:
        self.loan.give_back()
        if isinstance(answer, XirangError):
            self.finish(status_of(answer))
            return
        if not (answer.outputs or self.wants_empty):
            self.finish(b"")  # of a model that answers in parts, and has told them all
            return
        try:
            special = self.request.wanted.special
            response = encode(
                answer.outputs if self.delivery is None else self.delivery(answer.outputs),
                (answer.stand_in or self.model, answer.version),
                identity=self.request.id,
                parameters=self._parameters(answer),
                placed=() if special is None else special.places,
            )
        except Exception as error:
            self.finish(status_of(error))
        else:
            self.finish(response)

    def _parameters(self, answer: Answer) -> Mapping[str, bool | float | str]:
        found = self.parameters
        if answer.is_cropped:
            found = {**found, "xirang_cropped": True}
        if answer.lacks:
            found = {**found, "xirang_degraded": answer.lacks}
        if self.stopwatch is not None:
            found = {**found, **self.stopwatch.parameters(answer)}
        if self.is_explained:
            found = {**found, **explaining.parameters(answer)}
        return found
