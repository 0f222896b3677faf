"""Whatever clients, models and time do: every request gets one reply, and no wrong answer."""

from hypothesis import given, settings, strategies as st
from tests.support.asking import MS, ask, finish, finish_all
from tests.support.puppets import PuppetHouse

from xirang.engine.call import Answer
from xirang.errors import Cancelled, Expired, ModelFailed, TooBusy

GUILTY = 13

ids = st.integers(0, 20)
rows = st.integers(1, 5).flatmap(
    lambda length: st.lists(st.lists(ids, min_size=length, max_size=length), min_size=1, max_size=6)
)
steps = st.one_of(
    st.tuples(st.just("submit"), rows, st.sampled_from([2, 8, 40, 1000]), st.integers(0, 4)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("pass"), st.integers(0, 20)),
    st.tuples(st.just("finish")),
    st.tuples(st.just("step")),
)


class Story:
    """One random history of a house."""

    def __init__(self, instances):
        self.house = PuppetHouse.with_masked_double(
            instances=instances, max_batch_size=4, depth_max=6, efficiency=0.8
        )
        self.asked = []
        self.cancelled = set()

    def tell(self, step):
        getattr(self, "do_" + step[0])(*step[1:])
        self.house.check()
        assert all(len(asked.replies) <= 1 for asked in self.asked)

    def do_submit(self, request_rows, budget_ms, priority):
        try:
            self.asked.append(
                ask(self.house, *request_rows, budget_ms=budget_ms, priority=priority)
            )
        except TooBusy:
            assert len(self.house.engine.traffic.pending) > 0

    def do_cancel(self, index):
        if index < len(self.asked):
            self.cancelled.add(index)
            self.asked[index].ticket.cancel()

    def do_pass(self, passed_ms):
        self.house.advance(passed_ms * MS)

    def do_finish(self):
        for puppet in self.house.puppets:
            if puppet.waiting:
                puppet.finish()
        self.house.step()

    def do_step(self):
        self.house.step()

    def end(self):
        """Let everything come to rest, and hold every request against what it got."""
        while (
            any(puppet.waiting for puppet in self.house.puppets)
            or self.house.engine.traffic.pending
        ):
            self.do_finish()
            if due_ns := self.house.loop.next_timer_ns():
                self.house.advance(max(0, due_ns - self.house.clock.time_ns))
        self.house.check()
        for index, asked in enumerate(self.asked):
            self.judge(asked, is_cancelled=index in self.cancelled)

    def judge(self, asked, *, is_cancelled):
        if not asked.replies:
            assert is_cancelled, "only a client that went away gets no reply"
            return
        (reply,) = asked.replies
        is_guilty = any(GUILTY in row for row in asked.rows)
        if isinstance(reply, Answer):
            assert not is_guilty
            asked.check_right()
        elif isinstance(reply, ModelFailed):
            assert is_guilty, "nobody pays for another's fault"
        else:
            assert isinstance(reply, Expired) or (is_cancelled and isinstance(reply, Cancelled))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([1, 2]), st.lists(steps, max_size=40))
def test_every_request_gets_exactly_one_reply(instances, history):
    story = Story(instances)
    for step in history:
        story.tell(step)
    story.end()


def test_the_counts_add_up():
    house = PuppetHouse.with_masked_double(depth_max=3)
    asked = [ask(house, [1])]
    house.step()
    asked += [ask(house, [2]), ask(house, [GUILTY]), ask(house, [3], budget_ms=10)]
    asked[1].ticket.cancel()
    asked.append(ask(house, [4]))
    house.advance(12 * MS)
    finish(house)
    finish_all(house)
    kinds = [type(one.replies[0]) for one in asked]
    assert kinds == [Answer, Cancelled, ModelFailed, Expired, Answer]
    (entry,) = house.engine.statistics("m")["model_stats"]
    counts = entry["inference_stats"]
    assert (counts["success"]["count"], counts["fail"]["count"]) == (2, 3)
