"""Callables that the servers of these tests serve."""

import socket
from pathlib import Path


def shout(texts):
    return [text.upper() for text in texts]


def hold(texts):
    """`hold HOST:PORT` waits until that connection is closed; `note PATH WORD` writes it down."""
    for text in texts:
        command, *rest = text.split()
        if command == "hold":
            host, _, port = rest[0].rpartition(":")
            with socket.create_connection((host, int(port))) as gate:
                gate.recv(1)
        elif command == "note":
            with Path(rest[0]).open("a") as file:
                file.write(rest[1] + "\n")
        elif command == "raise":
            raise ValueError(" ".join(rest))
    return texts
