"""Our messages are the protocol's, field by field, and live beside the clients' own."""

import subprocess
import sys

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, ServiceDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

from xirang.frontends.grpc import standard
from xirang.frontends.grpc.inference import SCHEMA
from xirang.frontends.grpc.schema import Rpc, Schema


def plain(descriptor, kind=DescriptorProto):
    """A descriptor as a value, nested messages in the order of their names."""
    proto = kind()
    descriptor.CopyToProto(proto)
    if kind is DescriptorProto:
        sort(proto)
    else:
        for method in proto.method:
            method.ClearField("options")  # they are empty
    return proto


def sort(message):
    for nested in message.nested_type:
        sort(nested)
    nested = sorted(message.nested_type, key=lambda each: each.name)
    copies = [DescriptorProto.FromString(each.SerializeToString()) for each in nested]
    del message.nested_type[:]
    message.nested_type.extend(copies)
    for field in message.field:
        field.ClearField("json_name")


THEIRS = (
    service_pb2.DESCRIPTOR,
    model_config_pb2.DESCRIPTOR,
    health_pb2.DESCRIPTOR,
    reflection_pb2.DESCRIPTOR,
)


@pytest.mark.parametrize("theirs", THEIRS, ids=lambda file: file.name)
def test_every_message_and_enum_equals_the_clients(theirs):
    for name, message in theirs.message_types_by_name.items():
        ours = SCHEMA.pool.FindMessageTypeByName(f"{theirs.package}.{name}")
        assert plain(ours) == plain(message), name
    for name, enum in theirs.enum_types_by_name.items():
        ours = SCHEMA.pool.FindEnumTypeByName(f"{theirs.package}.{name}")
        assert ours.values_by_name.keys() == enum.values_by_name.keys()
        assert [v.number for v in ours.values] == [v.number for v in enum.values]


def test_the_inference_service_has_all_its_procedures():
    name = "inference.GRPCInferenceService"
    ours = SCHEMA.pool.FindServiceByName(name)
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    assert plain(ours, ServiceDescriptorProto) == plain(theirs, ServiceDescriptorProto)


def test_nothing_of_ours_is_in_the_pool_that_all_share():
    program = (
        "import xirang.frontends.grpc.standard, xirang.frontends.grpc.stream\n"
        "from google.protobuf.descriptor_pool import Default\n"
        "for name in ('inference.ModelInferRequest', 'grpc.health.v1.HealthCheckRequest'):\n"
        "    try: Default().FindMessageTypeByName(name)\n"
        "    except KeyError: continue\n"
        "    raise SystemExit(name)\n"
        "import tritonclient.grpc, grpc_health.v1.health_pb2\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert descriptor_pool.Default() is not SCHEMA.pool


def test_a_table_becomes_messages():
    schema = Schema()
    schema.add(
        "toy:Library",
        "Shelf: 1 name string, 2 sizes uint64*,\n"
        "    3 books string>Shelf.Book, 4 note string|remark, 5 mark bool|remark\n"
        "Shelf.Book: 7 binding Binding\n"
        "Binding = PAPER CLOTH LEATHER\n"
        "Empty:\n",
        rpcs=(Rpc("Browse", "Empty", "Shelf"),),
    )
    shelf = schema.message("toy.Shelf")(name="a", sizes=[1, 2], note="b")
    shelf.books["c"].binding = 2
    shelf.mark = True
    assert not shelf.HasField("note"), "the other member of the choice"
    wire = shelf.SerializeToString()
    assert wire == b"\n\x01a\x12\x02\x01\x02\x1a\x07\n\x01c\x12\x028\x02(\x01"
    assert schema.message("toy.Shelf").FromString(wire) == shelf
    assert schema.services == ["toy.Library"]
    assert schema.message("toy.Empty")().SerializeToString() == b""


def test_a_schema_can_stand_on_another():
    schema = Schema()
    schema.add("toy:Below", "Inner: 1 x int32\n")
    schema.add("toy:Above", "Outer: 1 inner Inner\n", needs=("toy:Below",))
    outer = schema.message("toy.Outer")()
    outer.inner.x = 3
    assert outer.SerializeToString() == b"\n\x02\x08\x03"


def test_both_names_of_reflection_are_served():
    assert [f"{package}.ServerReflection" for package in standard.REFLECTION_PACKAGES] == [
        name for name in SCHEMA.services if "reflection" in name
    ]
