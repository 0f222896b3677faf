"""How long a run takes: a law, what it was off by, and how far it was tried."""

from xirang.core.cost.fitting import Sample
from xirang.core.cost.model import COLD_RUNS, CostModel, CostState

__all__ = ["COLD_RUNS", "CostModel", "CostState", "Sample"]
