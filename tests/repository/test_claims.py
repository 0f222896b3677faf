"""A claim is made of a footprint, of what a model holds, and of what the operator grants."""

from types import SimpleNamespace

import pytest
from tests.support.core import fixed_shape

from xirang.config import ModelSettings
from xirang.core.memory.account import Claim
from xirang.core.memory.polynomial import Polynomial
from xirang.core.memory.pool import SLAB_BYTES
from xirang.core.policy import Policy
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.extent import Shapes
from xirang.engine.model import Model
from xirang.repository.claims import claim_of, files_bytes
from xirang.repository.tiny_runs import LENGTH_MAX

MIB = 1 << 20
PEAKS: tuple[Polynomial, ...] = ()


class Footprint:
    """A MiB for each element of a run."""

    peaks = PEAKS

    def peak_bytes(self, rows, length):
        return rows * length * MIB


def model_of(*, axes=1, instances=1, device="cpu", rows_fixed=None, **shapes):
    spec = TensorSpec("x", "FP32", (None,) * (1 + axes))
    executable = SimpleNamespace(device=device, inputs=(spec,), outputs=(spec,))
    layouts = {"x": Layout(ties=tuple(Tie(1 + axis, axis) for axis in range(axes)))}
    signature = Signature((spec,), (spec,), True, layouts, rows_fixed=rows_fixed)
    policy = Policy(instances=instances)
    shapes = Shapes(**shapes)
    return Model("m", executable, signature, policy, 1, cost=fixed_shape(5, 1), shapes=shapes)


def test_what_the_operator_grants_holds_as_it_is():
    settings = ModelSettings(
        memory_guarantee_mib=3, memory_limit_mib=5, memory_keep_mib=1, memory_evict=True
    )
    found = claim_of(model_of(), Footprint(), settings, held_bytes=530)
    assert found == Claim(PEAKS, 3 * MIB, 5 * MIB, 530, MIB, may_go=True)


@pytest.mark.parametrize(
    ("shapes", "least", "usual"),
    [
        ({"length_max": 100}, 1, 100),
        ({}, 1, LENGTH_MAX),
        ({"length_max": 100, "row_sizes": (4, 8)}, 4, 400),
        ({"length_max": 100, "rows_fixed": 2}, 2, 200),
        ({"axes": 0}, 1, 1),
    ],
)
def test_unless_he_says_otherwise_it_is_what_it_holds_and_a_run_of_one_long_row(
    shapes, least, usual
):
    found = claim_of(model_of(**shapes), Footprint(), ModelSettings(), held_bytes=3 * MIB)
    held = 2 * SLAB_BYTES
    assert found.guarantee_bytes == held + -(-least * MIB // SLAB_BYTES) * SLAB_BYTES
    assert found.wish_bytes == held + -(-usual * MIB // SLAB_BYTES) * SLAB_BYTES
    assert found.fixed_bytes == 3 * MIB


def test_a_model_that_allocates_as_it_likes_holds_its_weights_all_the_same():
    found = claim_of(model_of(), None, ModelSettings(), held_bytes=5 * MIB)
    assert (found.peaks, found.fixed_bytes, found.keep_bytes) == ((), 5 * MIB, 0)
    assert found.guarantee_bytes == found.wish_bytes == 3 * SLAB_BYTES


def test_of_what_lies_on_a_device_nobody_knows_how_much_it_is():
    assert claim_of(model_of(device="cuda:0"), None, ModelSettings(), held_bytes=5) is None


def test_each_instance_has_what_it_needs_beside_its_arena():
    footprint = Footprint()
    footprint.beside_bytes, footprint.device = 7, "cuda:0"
    found = claim_of(model_of(instances=3), footprint, ModelSettings(), held_bytes=5)
    assert (found.fixed_bytes, found.device) == (26, "cuda:0")


def test_all_files_of_weights_count(tmp_path):
    weights = tmp_path / "model.onnx"
    weights.write_bytes(b"x" * 30)
    (tmp_path / "model.onnx.data").write_bytes(b"x" * 500)
    (tmp_path / "other.onnx").write_bytes(b"x" * 9)
    assert files_bytes(weights) == 530
