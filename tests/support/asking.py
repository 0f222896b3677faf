"""Requests to a puppet house, and what came back."""

from dataclasses import dataclass, field

import numpy as np

from xirang.engine.call import Answer, Call
from xirang.errors import XirangError
from xirang.tensors.tensor import of_array

MS = 1_000_000


def masked_inputs(rows):
    """Inputs for a MaskedDouble; every row has the same length."""
    ids = np.array(rows, np.int64)
    return {"ids": of_array(ids), "attention_mask": of_array(np.ones_like(ids))}


@dataclass(eq=False)
class Asked:
    """One request: its ticket and every reply it got."""

    rows: list
    replies: list = field(default_factory=list)
    ticket: object = None

    @property
    def answer(self):
        (answer,) = self.replies
        assert isinstance(answer, Answer), answer
        return answer

    @property
    def error(self):
        (error,) = self.replies
        assert isinstance(error, XirangError), error
        return error

    def check_right(self):
        """Exactly one answer, and the model's own."""
        outputs = self.answer.outputs
        assert outputs["doubled"].tolist() == [[2 * i for i in row] for row in self.rows]
        assert outputs["total"].tolist() == [[sum(row)] for row in self.rows]


def ask(house, *rows, budget_ms=1000, **fields):
    """Submit rows of ids to the house's model `m`."""
    asked = Asked([list(row) for row in rows])
    call = Call(
        "m",
        masked_inputs(asked.rows),
        asked.replies.append,
        budget_ns=int(budget_ms * MS),
        **fields,
    )
    asked.ticket = house.engine.submit(call)
    return asked


def finish(house):
    """Let the oldest run end."""
    house.puppet.finish()
    house.step()


def finish_all(house):
    """Let runs end until nobody runs or waits; timers pass at their instants."""
    house.step()
    while house.puppet.waiting or house.loop.next_timer_ns() is not None:
        if house.puppet.waiting:
            finish(house)
        else:
            house.advance(max(0, house.loop.next_timer_ns() - house.clock.time_ns))
