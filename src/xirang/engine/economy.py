"""What a pressed server does without: which functions are off, and what is answered instead.

A model may have outputs that it leaves out, unless they are asked for by name. At the last step of
overload it may read only the head of long requests, or leave them to a cheaper model. The two
models take and give the same; what the cheaper one cannot take goes to the full one all the same.
Whoever is served less than usual is told so.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from xirang.core.event import Event, Function, OverloadChanged
from xirang.engine.call import Answer, Call, Reply
from xirang.engine.lifecycle import Roster
from xirang.engine.model import Model
from xirang.errors import InvalidRequest, InvalidSetting, NotReady, UnknownModel, XirangError


class Economy:
    """Follows the levels of overload.

    Attributes:
        off: Functions that are switched off on some device.
    """

    __slots__ = ("_off_on", "_roster", "off")

    def __init__(self, roster: Roster) -> None:
        """Everything is on.

        Args:
            roster: Whose models may stand in for each other.
        """
        self._roster = roster
        self._off_on: dict[str, tuple[Function, ...]] = {}
        self.off: frozenset[Function] = frozenset()

    def note(self, event: Event) -> None:
        """Something happened; only changes of a level are of interest."""
        if isinstance(event, OverloadChanged):
            self._off_on[event.device] = event.off
            self.off = frozenset(each for off in self._off_on.values() for each in off)

    def instead(self, model: Model, call: Call) -> tuple[Model, Call]:
        """Who answers a call now, the model that was asked or its stand-in, and what it gets."""
        lacks: list[str] = []
        if Function.OPTIONAL_OUTPUTS in self.off and model.optional_outputs and not call.outputs:
            call = replace(call, outputs=model.core_outputs)
            lacks.append("outputs")
        if Function.FULL_MODEL in self.off:
            shorter = model.shortened(call.inputs)
            if shorter is not None:
                call = replace(call, inputs=shorter)
                lacks.append(f"length {model.length_degraded}")
            stand_in = self._stand_in(model, call)
            if stand_in is not None:
                call = replace(call, reply=_given_by(stand_in.name, call.reply))
                if call.budget_ns is None:
                    call = replace(call, budget_ns=model.budget_ns)
                model = stand_in
                lacks.append(stand_in.name)
        if lacks:
            call = replace(call, reply=_marked(", ".join(lacks), call.reply))
        return model, call

    def _stand_in(self, model: Model, call: Call) -> Model | None:
        if not model.stand_in:
            return None
        try:
            stand_in = self._roster.find(model.stand_in)
            stand_in.admit(call.inputs)
        except (UnknownModel, NotReady, InvalidRequest):
            return None
        # Either may have been replaced since the start by one of another form.
        return stand_in if _form(model) == _form(stand_in) else None

    def check(self) -> None:
        """Hold every stand-in against the model for which it stands.

        Raises:
            InvalidSetting: It is not served, or does not take and give the same.
        """
        for model in self._models():
            if model.stand_in:
                self._check(model)

    def _models(self) -> Iterator[Model]:
        return (each.model for each in self._roster.standings() if each.model is not None)

    def _check(self, model: Model) -> None:
        setting = f"degrade_to of '{model.name}' is '{model.stand_in}'"
        try:
            stand_in = self._roster.find(model.stand_in)
        except (UnknownModel, NotReady):
            served = self._roster.names()
            raise InvalidSetting(f"{setting}, which is not served; served are {served}") from None
        if _form(model) != _form(stand_in):
            raise InvalidSetting(
                f"{setting}, which takes or gives other tensors; expected the same names and "
                f"datatypes: {_form(model)}, not {_form(stand_in)}"
            )


def _given_by(name: str, reply: Reply) -> Reply:
    def given(answer: Answer | XirangError) -> None:
        if isinstance(answer, Answer):
            answer = replace(answer, stand_in=name)
        reply(answer)

    return given


def _marked(lacks: str, reply: Reply) -> Reply:
    def marked(answer: Answer | XirangError) -> None:
        if isinstance(answer, Answer):
            answer = replace(answer, lacks=lacks)
        reply(answer)

    return marked


def _form(model: Model) -> list[dict[str, str]]:
    """Names and datatypes of what a model takes and gives."""
    signature = model.signature
    return [{s.name: s.datatype for s in specs} for specs in (signature.inputs, signature.outputs)]
