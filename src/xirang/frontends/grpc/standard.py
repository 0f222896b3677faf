"""The messages of gRPC's own services: health, and reflection under both of its names."""

from xirang.frontends.grpc.inference import SCHEMA
from xirang.frontends.grpc.schema import Rpc

HEALTH_PACKAGE = "grpc.health.v1"
HEALTH = """\
HealthCheckRequest: 1 service string
HealthCheckResponse: 1 status HealthCheckResponse.ServingStatus
HealthCheckResponse.ServingStatus = UNKNOWN SERVING NOT_SERVING SERVICE_UNKNOWN
"""

REFLECTION_PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
"""The same messages twice: newer clients ask for the first, older ones only for the second."""

REFLECTION = """\
ServerReflectionRequest: 1 host string, 3 file_by_filename string|message_request,
    4 file_containing_symbol string|message_request,
    5 file_containing_extension ExtensionRequest|message_request,
    6 all_extension_numbers_of_type string|message_request, 7 list_services string|message_request
ExtensionRequest: 1 containing_type string, 2 extension_number int32
ServerReflectionResponse: 1 valid_host string, 2 original_request ServerReflectionRequest,
    4 file_descriptor_response FileDescriptorResponse|message_response,
    5 all_extension_numbers_response ExtensionNumberResponse|message_response,
    6 list_services_response ListServiceResponse|message_response,
    7 error_response ErrorResponse|message_response
FileDescriptorResponse: 1 file_descriptor_proto bytes*
ExtensionNumberResponse: 1 base_type_name string, 2 extension_number int32*
ListServiceResponse: 1 service ServiceResponse*
ServiceResponse: 1 name string
ErrorResponse: 1 error_code int32, 2 error_message string
"""

_CHECK = Rpc("Check", "HealthCheckRequest", "HealthCheckResponse")
_WATCH = Rpc("Watch", "HealthCheckRequest", "HealthCheckResponse", is_watched=True)
_REFLECT = Rpc(
    "ServerReflectionInfo",
    "ServerReflectionRequest",
    "ServerReflectionResponse",
    is_stream=True,
)

SCHEMA.add(f"{HEALTH_PACKAGE}:Health", HEALTH, rpcs=(_CHECK, _WATCH))
for _package in REFLECTION_PACKAGES:
    SCHEMA.add(f"{_package}:ServerReflection", REFLECTION, rpcs=(_REFLECT,))
