"""A claim is made of a footprint, a file of weights and what the operator grants."""

from types import SimpleNamespace

from xirang.config import ModelSettings
from xirang.core.memory.account import Claim
from xirang.core.memory.polynomial import Polynomial
from xirang.repository.claims import claim_of

PEAKS = (Polynomial((0, 7, 0, 0, 0, 0)),)
MIB = 1 << 20


def test_a_claim_is_in_bytes_and_counts_all_files_of_weights(tmp_path):
    weights = tmp_path / "model.onnx"
    weights.write_bytes(b"x" * 30)
    (tmp_path / "model.onnx.data").write_bytes(b"x" * 500)
    (tmp_path / "other.onnx").write_bytes(b"x" * 9)
    settings = ModelSettings(
        memory_guarantee_mib=3, memory_limit_mib=5, memory_keep_mib=1, memory_evict=True
    )
    assert claim_of(SimpleNamespace(peaks=PEAKS), settings, weights=weights) == Claim(
        PEAKS, 3 * MIB, 5 * MIB, 530, MIB, may_go=True
    )


def test_a_model_that_allocates_as_it_likes_claims_nothing():
    assert claim_of(None, ModelSettings(), weights=None) is None


def test_a_model_without_a_file_holds_nothing():
    assert claim_of(SimpleNamespace(peaks=PEAKS), ModelSettings(), weights=None).fixed_bytes == 0
