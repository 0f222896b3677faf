"""Protobuf messages from tables of facts, in a descriptor pool of our own.

Clients bring descriptors of the same names into the default pool, which refuses a second one of
each; with a pool of its own the server lives beside them in one process. A table reads

    Shelf: 1 name string, 2 sizes uint64*, 3 books string>Shelf.Book, 4 note string|remark
    Shelf.Book: 1 binding Binding
    Binding = PAPER CLOTH LEATHER

and gives a message of a plain field, a repeated one, a map and a member of a oneof; one inside it;
and an enum that counts from 0. A line that begins with spaces goes on with the one before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

SCALARS = frozenset({"bool", "int32", "int64", "uint32", "uint64", "float", "double"}) | {
    "string",
    "bytes",
}


@dataclass(frozen=True, slots=True)
class Rpc:
    """One procedure of a service.

    Attributes:
        name: As it stands in the path.
        takes: Message of a request, without its package.
        gives: Message of a response, without its package.
        is_stream: Whether many go each way.
        is_watched: Whether many answer one request.
    """

    name: str
    takes: str
    gives: str
    is_stream: bool = False
    is_watched: bool = False


def unary(*names: str) -> tuple[Rpc, ...]:
    """Procedures whose messages are named after them, as is the custom."""
    return tuple(Rpc(name, f"{name}Request", f"{name}Response") for name in names)


class Schema:
    """Files of messages and services, each standing on those before it.

    Attributes:
        pool: Where the descriptors are.
        services: Full names.
    """

    def __init__(self) -> None:
        self.pool = DescriptorPool()
        self.services: list[str] = []

    def add(
        self,
        name: str,
        table: str,
        *,
        rpcs: Sequence[Rpc] = (),
        needs: Sequence[str] = (),
    ) -> None:
        """Add one file.

        Args:
            name: Its package, and behind a colon the name of its service or of what it holds.
            table: Its messages and enums.
            rpcs: Of the service; without any there is none.
            needs: Names of the files that its messages refer to.
        """
        package, _, own = name.partition(":")
        proto = FileDescriptorProto(
            name=_file(name), package=package, syntax="proto3", dependency=map(_file, needs)
        )
        _Filling(proto).fill(table)
        if rpcs:
            _add_service(proto, own, rpcs)
            self.services.append(f"{package}.{own}")
        self.pool.Add(proto)

    def message(self, name: str) -> Any:
        """The class of a message, given its full name."""
        return GetMessageClass(self.pool.FindMessageTypeByName(name))


def _file(name: str) -> str:
    return f"xirang/{name.replace(':', '/')}.proto"


def _lines(table: str) -> Iterator[str]:
    """The lines of a table, each as long as it goes on."""
    line = ""
    for part in table.splitlines():
        if part.startswith(" "):
            line += part[3:]
        else:
            if line:
                yield line
            line = part
    yield line


class _Filling:
    """Puts a table's messages and enums into a file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._messages: dict[str, DescriptorProto] = {}
        self._enums: set[str] = set()

    def fill(self, table: str) -> None:
        """All names first, because fields need to know what is an enum."""
        bodies: list[tuple[str, str]] = []
        for line in _lines(table):
            if " = " in line:
                name, _, values = line.partition(" = ")
                self._add_enum(name, values.split())
            else:
                name, _, fields = line.partition(":")
                self._add_message(name)
                bodies.append((name, fields))
        for name, fields in bodies:
            for field in filter(None, fields.split(",")):
                self._add_field(name, field)

    def _add_message(self, name: str) -> None:
        outer, _, own = name.rpartition(".")
        within: Any = self._messages[outer].nested_type if outer else self._file.message_type
        self._messages[name] = within.add(name=own)

    def _add_enum(self, name: str, values: Iterable[str]) -> None:
        outer, _, own = name.rpartition(".")
        within: Any = self._messages[outer].enum_type if outer else self._file.enum_type
        enum: EnumDescriptorProto = within.add(name=own)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
        self._enums.add(name)

    def _add_field(self, owner: str, text: str) -> None:
        message = self._messages[owner]
        number, name, kind = text.split()
        kind, _, choice = kind.partition("|")
        field = message.field.add(name=name, number=int(number))
        key, _, value = kind.partition(">")
        if value:
            kind = self._add_map_entry(owner, name, key, value)
        is_repeated = bool(value) or kind.endswith("*")
        field.label = field.LABEL_REPEATED if is_repeated else field.LABEL_OPTIONAL
        self._set_type(field, kind.removesuffix("*"))
        if choice:
            field.oneof_index = _oneof_index(message, choice)

    def _add_map_entry(self, owner: str, name: str, key: str, value: str) -> str:
        """The message that a map's field repeats; the name is given by the format."""
        own = "".join(word.capitalize() for word in name.split("_")) + "Entry"
        entry = self._messages[owner].nested_type.add(name=own)
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            field = entry.field.add(name=part, number=number)
            field.label = field.LABEL_OPTIONAL
            self._set_type(field, kind)
        return f"{owner}.{own}"

    def _set_type(self, field: FieldDescriptorProto, kind: str) -> None:
        if kind in SCALARS:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        else:
            field.type_name = f".{self._file.package}.{kind}"
            field.type = field.TYPE_ENUM if kind in self._enums else field.TYPE_MESSAGE


def _oneof_index(message: DescriptorProto, choice: str) -> int:
    for index, oneof in enumerate(message.oneof_decl):
        if oneof.name == choice:
            return index
    message.oneof_decl.add(name=choice)
    return len(message.oneof_decl) - 1


def _add_service(proto: FileDescriptorProto, service: str, rpcs: Iterable[Rpc]) -> None:
    described = proto.service.add(name=service)
    for rpc in rpcs:
        described.method.add(
            name=rpc.name,
            input_type=f".{proto.package}.{rpc.takes}",
            output_type=f".{proto.package}.{rpc.gives}",
            client_streaming=rpc.is_stream,
            server_streaming=rpc.is_stream or rpc.is_watched,
        )
