"""What an instance does with a run of a model that takes requests: give them, check answers."""

from collections.abc import Sequence
from typing import Any

from xirang.backends.requests import NOTHING_SAID, Asked, Responded
from xirang.core.run import Done
from xirang.engine.clock import Clock
from xirang.engine.contract import Contract
from xirang.engine.faults import SomeFailed, as_error
from xirang.engine.inner import InnerCalls
from xirang.engine.member import Member
from xirang.engine.model import Model
from xirang.errors import XirangError
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import to_array


class RequestWork:
    """Nothing is assembled and nothing split: each request comes and goes as it is."""

    def __init__(self, model: Model, inner: InnerCalls) -> None:
        """Prepare for a model's runs.

        Args:
            model: Its executable has `run_requests`.
            inner: Takes what the model wants of the server meanwhile.
        """
        self._model = model.name
        self._names = model.output_names
        self._contract = Contract(model.signature)
        self._run: Any = model.executable.run_requests  # type: ignore[attr-defined]
        self._is_decoupled = model.is_decoupled
        self._inner = inner

    def __call__(self, members: Sequence[Member], *, clock: Clock) -> tuple[list[Any], Done]:
        """See `faults.Work`."""
        started_ns = clock.now_ns()
        asked = [
            Asked(
                {name: to_array(tensor) for name, tensor in member.inputs.items()},
                member.wanted,
                member.about or NOTHING_SAID,
            )
            for member in members
        ]
        assembled_ns = clock.now_ns()
        responded = self._run(asked, self._inner.line(members, self._checked))
        ran_ns = clock.now_ns()
        if len(responded) != len(members):
            raise RowsMismatchError(f"{len(responded)} responses for {len(members)} requests")
        results = [
            self._checked(member, response)
            for member, response in zip(members, responded, strict=True)
        ]
        if any(isinstance(result, XirangError) for result in results):
            raise SomeFailed(results)
        ended_ns = clock.now_ns()
        return results, Done(ended_ns - started_ns, assembled_ns - started_ns, ended_ns - ran_ns)

    def _checked(self, member: Member, response: Responded) -> Responded:
        """The response, or what is wrong with it.

        Who names no outputs takes those that the model gave, as with Triton.
        """
        if isinstance(response, XirangError):
            return response
        is_all = len(member.wanted) == len(self._names)
        names = [name for name in member.wanted if name in response] if is_all else member.wanted
        if self._is_decoupled:  # the last of several answers may be empty
            names = list(response)
        try:
            self._contract.check(response, names)
        except ValueError as error:
            return as_error(self._model, error)
        return {name: response[name] for name in names}
