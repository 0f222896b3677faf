"""The comparison policies keep the rules of every scheduler, whatever comes."""

from itertools import islice

import pytest
from tests.support.simulated import GPU, GPU_CAPACITY, MINILM, MS, gpu_policy, service, some

from xirang.core.policy import Policy
from xirang.errors import InvalidSetting
from xirang.lab.checkers import checkers_of_any
from xirang.lab.policies.known import ALL, contender, contenders
from xirang.lab.simulator import Simulator
from xirang.lab.simulator_result import Tally
from xirang.lab.workload import Choice, Demands, Gamma, Lognormal, Poisson, Workload

pytestmark = pytest.mark.slow

RIVALS = [name for name in ALL if name != "ours"]
BUDGETS = Choice((60 * MS, 200 * MS, 1000 * MS))
TEXTS = Lognormal(30, 0.92, 3, 512)


def run(name, models, requests, *, devices):
    """Figures of a policy under the checkers that hold for any."""
    rival = contender(name)
    policies = {model: policy for model, (policy, _, _) in models.items()}
    parts = {
        model: (policy, law.learned(rows_max=policy.rows_max, lengths=[1, 8, 64, 512]), service)
        for model, (policy, law, service) in models.items()
    }
    checkers = checkers_of_any(policies, devices, binds_late=name != "ray")
    tally = Tally(parallelism=sum(devices.values()))
    simulator = Simulator(
        parts,
        devices=devices,
        watchers=[tally, *checkers],
        scheduler=rival.schedules(devices=dict(devices)),
    )
    simulator.run(requests)
    checkers[0].finish()
    return tally.result()


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("rate", [40, 160, 400])
def test_everybody_is_answered_once(name, rate):
    models = {
        "texts": (
            Policy(device="a", can_pad=True, elements_max=4096, depth_max=300),
            MINILM,
            service(MINILM, noise=0.2, outliers=0.02),
        ),
        "images": (gpu_policy(device="b", instances=2), GPU, service(GPU, blips={3: 8.0})),
        "shapes": (gpu_policy(device="b", instances=1), GPU, service(GPU)),
    }
    priorities = Choice((1, 2, 3))
    workloads = [
        Workload(
            Gamma(rate, 2.0), Demands("texts", TEXTS, budgets_ns=BUDGETS, priorities=priorities)
        ),
        Workload(Poisson(4 * rate), Demands("images", budgets_ns=BUDGETS, rows=Choice((1, 3, 80)))),
        Workload(Poisson(rate), Demands("shapes", budgets_ns=BUDGETS, groups=Choice(("x", "y")))),
    ]
    result = run(name, models, some(workloads, seed=rate, requests=1500), devices={"a": 1, "b": 2})
    assert result.requests == 1500
    assert result.runs > 0


def test_a_full_queue_rejects():
    models = {"m": (gpu_policy(depth_max=5, max_batch_size=1), GPU, service(GPU))}
    workload = Workload(Poisson(1000.0), Demands("m", budgets_ns=Choice((1000 * MS,))))
    result = run("eager", models, islice(workload.requests(seed=1), 200), devices={"cpu": 1})
    assert result.rejected > 100
    assert result.on_time == (200 - result.rejected) / 200


def test_models_share_a_device_by_who_has_waited_longest():
    models = {
        name: (gpu_policy(max_batch_size=4), GPU, service(GPU)) for name in ("first", "second")
    }
    workloads = [
        Workload(Poisson(900.0), Demands(name, budgets_ns=Choice((300 * MS,)))) for name in models
    ]
    for name in ("eager", "nexus"):
        result = run(name, models, some(workloads, seed=1, requests=800), devices={"cpu": 1})
        assert result.on_time > 0.2


@pytest.mark.parametrize(("name", "load"), [("nexus", 1.2), ("symphony", 1.2), ("eager", 0.8)])
def test_what_each_is_good_at(name, load):
    """Nexus and Symphony nearly serve what the device can; eager is in time while it can."""
    models = {"model": (gpu_policy(), GPU, service(GPU))}
    workload = Workload(Poisson(load * GPU_CAPACITY), Demands(budgets_ns=Choice((50 * MS,))))
    result = run(name, models, islice(workload.requests(seed=2), 6000), devices={"cpu": 1})
    assert result.on_time >= 0.98 * min(1.0, 1 / load)


def test_symphony_has_larger_batches_than_eager_at_light_load():
    models = {"model": (gpu_policy(), GPU, service(GPU))}
    workload = Workload(Poisson(0.2 * GPU_CAPACITY), Demands(budgets_ns=Choice((50 * MS,))))
    batches = {}
    for name in ("eager", "symphony"):
        requests = islice(workload.requests(seed=2), 3000)
        result = run(name, models, requests, devices={"cpu": 1})
        assert result.on_time > 0.99
        batches[name] = result.batch_mean
    assert batches["symphony"] > 5 * batches["eager"]


# ---------------------------------------------------------------------- names


def test_names_with_parameters():
    first, second, third = contenders("ours:0.25,window:3:8:16,eager")
    assert first.is_ours
    assert first.policy(Policy(efficiency=1.0)).efficiency == 0.25
    assert second.make_rule().preferred == (8, 16)
    assert not third.is_ours
    assert [each.name for each in contenders("all")] == list(ALL)
    assert len(contenders("eager,eager")) == 1


@pytest.mark.parametrize("word", ["best", "ours:2", "ours:x", "eager:1", "ray:1:2", "window:-1"])
def test_bad_names_list_what_is_known(word):
    with pytest.raises(InvalidSetting, match=r"known are ours|expected"):
        contender(word)
