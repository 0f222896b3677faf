"""POST /v1/models/{model}:predict, KServe's first protocol: a list of instances, or columns.

Instances of equal shapes go as one request, of other shapes as others: rows of several lengths
need not be padded by the client.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from numpy.typing import NDArray

from xirang.engine.call import Answer, Call
from xirang.errors import InvalidRequest, XirangError
from xirang.frontends.caller import caller_of
from xirang.frontends.documents import parsed
from xirang.frontends.errors import JSON_TYPE, error_response
from xirang.frontends.exchange import Exchange, degraded
from xirang.frontends.keys import Keys
from xirang.frontends.service import ModelInfo, Service, TensorSpec, Ticket
from xirang.frontends.v1.plain_json import nested_json, nested_shape, spec_of, tensor_of
from xirang.tensors.tensor import Tensor

INSTANCES_MAX = 65_536
_OBJECT_EXPECTED = "the request JSON must be an object with 'instances' or 'inputs'"

Places = tuple[int, ...]
"""Of instances among all of a request."""


class PredictRoute:
    """Answers predict requests for one model."""

    def __init__(self, service: Service, name: str, keys: Keys | None = None) -> None:
        self._service = service
        self._name = name
        self._keys = keys

    def welcome(self, exchange: Exchange) -> None:
        """Look at a head, before its body has come."""
        caller_of(exchange, self._keys, self._name)

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in; every shape of its instances becomes a call."""
        terms = caller_of(exchange, self._keys, self._name).terms(exchange)
        model = self._service.model(self._name)
        document = parsed(exchange.body, _OBJECT_EXPECTED)
        if ("instances" in document) == ("inputs" in document):
            raise InvalidRequest("expected one of 'instances' and 'inputs', and not both")
        is_rows = "instances" in document
        if is_rows:
            calls = rows_of(document["instances"], model)
        else:
            calls = [((0,), columns_of(document["inputs"], model))]
        count = sum(len(places) for places, _ in calls)
        predicting = Predicting(exchange, count, is_rows=is_rows)
        exchange.on_disconnect = predicting.stop
        for places, inputs in calls:
            if predicting.is_over:
                return
            reply = exchange.follow(partial(predicting.take, places), self._name)
            call = Call(self._name, inputs, reply, None, None, *terms)
            try:
                predicting.tickets.append(self._service.submit(call))
            except XirangError as error:
                predicting.fail(error)


class Predicting:
    """One request's calls on their way: answered when all are in, or at the first error."""

    __slots__ = ("_exchange", "_is_rows", "_left", "_rows", "is_over", "tickets")

    def __init__(self, exchange: Exchange, count: int, *, is_rows: bool) -> None:
        self._exchange = exchange
        self._is_rows = is_rows
        self._rows: list[bytes] = [b""] * count
        self._left = count
        self.is_over = False
        self.tickets: list[Ticket] = []

    def take(self, places: Sequence[int], answer: Answer | XirangError) -> None:
        """The reply of one call: rows for these places, or all there is."""
        if self.is_over:
            return
        if isinstance(answer, XirangError):
            self.fail(answer)
            return
        try:
            if self._is_rows:
                self._take_rows(places, answer.outputs)
            else:
                self._rows[0] = _document(answer.outputs)
            self._left -= len(places)
            if not self._left:
                self._respond(answer)
        except Exception as error:
            self.fail(error)

    def _take_rows(self, places: Sequence[int], outputs: Mapping[str, NDArray[Any]]) -> None:
        for name, array in outputs.items():
            if array.shape[:1] != (len(places),):
                raise InvalidRequest(
                    f"output '{name}' has no row for each instance; ask with 'inputs' instead"
                )
        for row, place in enumerate(places):
            self._rows[place] = _document(
                {name: array[row, ...] for name, array in outputs.items()}
            )

    def _respond(self, answer: Answer) -> None:
        self.is_over = True
        if self._is_rows:
            body = b'{"predictions":[%b]}' % b",".join(self._rows)
        else:
            body = b'{"outputs":%b}' % self._rows[0]
        headers = JSON_TYPE + (degraded(answer.lacks) if answer.lacks else b"")
        self._exchange.respond(200, headers, body)

    def fail(self, error: BaseException) -> None:
        """Answer with the error; what else is under way for the request stops."""
        self.stop()
        if not self._exchange.status:
            self._exchange.respond(*error_response(error))

    def stop(self) -> None:
        """Take back every call that is still out."""
        self.is_over = True
        tickets, self.tickets = self.tickets, []
        for ticket in tickets:
            ticket.cancel()


def columns_of(value: Any, model: ModelInfo) -> dict[str, Tensor]:
    """The inputs of a request that gives each as a whole: by name, or the only one.

    Raises:
        InvalidRequest: They do not fit the model.
    """
    specs = tuple(model.inputs)
    given = value if type(value) is dict else {_only(specs).name: value}
    inputs = {}
    for name, data in given.items():
        spec = spec_of(name, specs)
        inputs[name] = tensor_of(data, spec, nested_shape(data))
    return inputs


def rows_of(instances: Any, model: ModelInfo) -> list[tuple[tuple[int, ...], dict[str, Tensor]]]:
    """The inputs of a request that gives instance after instance, for each shape among them.

    Returns:
        The places of the instances, and the inputs that they make together.

    Raises:
        InvalidRequest: They do not fit the model.
    """
    if type(instances) is not list or not 1 <= len(instances) <= INSTANCES_MAX:
        raise InvalidRequest(f"'instances' must be a list of 1 to {INSTANCES_MAX}")
    specs = tuple(model.inputs)
    is_single = any(spec.shape[:1] == (1,) for spec in specs)
    by_shape: dict[Any, list[int]] = {}
    rows = []
    for place, instance in enumerate(instances):
        row = _named(instance, specs)
        rows.append(row)
        shapes = tuple([(name, nested_shape(value)) for name, value in row.items()])
        by_shape.setdefault((shapes, place if is_single else -1), []).append(place)
    found = []
    for (shapes, _), places in by_shape.items():
        inputs = {}
        for name, shape in shapes:
            values = [rows[place][name] for place in places]
            inputs[name] = tensor_of(values, spec_of(name, specs), (len(places), *shape))
        found.append((tuple(places), inputs))
    return found


def _named(instance: Any, specs: tuple[TensorSpec, ...]) -> Mapping[str, Any]:
    """An instance by the names of its inputs, in the model's order."""
    if type(instance) is not dict or instance.keys() == {"b64"}:
        return {_only(specs).name: instance}
    for name in instance:
        spec_of(name, specs)
    return {s.name: instance[s.name] for s in specs if s.name in instance}


def _only(specs: tuple[TensorSpec, ...]) -> TensorSpec:
    if len(specs) != 1:
        raise InvalidRequest(
            f"the model has several inputs; expected an object with {[s.name for s in specs]}"
        )
    return specs[0]


def _document(outputs: Mapping[str, NDArray[Any]]) -> bytes:
    """An answer: of one output its value, of several an object."""
    if len(outputs) == 1:
        ((name, array),) = outputs.items()
        return nested_json(name, array)
    members = [b"%b:%b" % (orjson.dumps(n), nested_json(n, a)) for n, a in outputs.items()]
    return b"{%b}" % b",".join(members)
