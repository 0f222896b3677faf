"""What the protocol's extensions need beside the engine, one object for all doors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from xirang.config import Config
from xirang.frontends.forwarding import pattern_of
from xirang.frontends.restricted import Check, restrictions
from xirang.frontends.service import ModelInfo
from xirang.frontends.v2.delivery import Delivery
from xirang.frontends.v2.shared_memory import Regions
from xirang.frontends.v2.special import Special
from xirang.observe.dials import Dials, dials_at
from xirang.observe.witness import Witness

EXTENSIONS = (
    "classification",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)
"""Only what works; clients act on these names."""


@dataclass(slots=True)
class Extensions:
    """Made once for a server.

    Attributes:
        regions: Memory that clients share.
        dials: How much is traced and logged.
        http_checks: What requests for an API must pass, over HTTP.
        grpc_checks: The same over gRPC.
        shares_memory: Whether clients may share any.
        witness: Sees the requests that are traced and logged; None: none are.
        http_forward: Which headers models get as parameters; None for none.
        grpc_forward: The same over gRPC.
    """

    regions: Regions = field(default_factory=Regions)
    dials: Dials = field(default_factory=Dials)
    http_checks: Mapping[str, Check] = field(default_factory=dict)
    grpc_checks: Mapping[str, Check] = field(default_factory=dict)
    shares_memory: bool = False
    witness: Witness | None = None
    http_forward: re.Pattern[str] | None = None
    grpc_forward: re.Pattern[str] | None = None

    @property
    def names(self) -> list[str]:
        """What clients may use."""
        return [*EXTENSIONS, *(["system_shared_memory"] if self.shares_memory else [])]

    def delivery(self, special: Special, model: ModelInfo) -> Delivery:
        """What brings the outputs of one answer where its request wants them.

        Raises:
            XirangError: There is no such place.
        """
        return Delivery(special, self.regions, model)


def extensions_of(config: Config) -> Extensions:
    """As the settings say.

    Raises:
        InvalidSetting: One is wrong.
    """
    return Extensions(
        Regions(is_allowed=config.allow_shared_memory, bytes_max=config.body_mib_max << 20),
        dials_at(config.log_level),
        restrictions(config.http_restricted_api, "http_restricted_api"),
        restrictions(config.grpc_restricted_protocol, "grpc_restricted_protocol", is_grpc=True),
        config.allow_shared_memory,
        http_forward=pattern_of(config.http_header_forward_pattern, "http_header_forward_pattern"),
        grpc_forward=pattern_of(config.grpc_header_forward_pattern, "grpc_header_forward_pattern"),
    )
