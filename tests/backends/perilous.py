"""Callables that endanger the process they run in."""

import ctypes
import os
import signal
import sys
import threading

import numpy as np

_held = []


def obey(rows):
    """Does to its process what the row says: 0 nothing, 1 kill, 2 exit, 3 hang, 4 leak, 5 crash,
    6 raise, 7 leave.
    """
    for row in rows:
        match int(row[0]):
            case 1:
                os.kill(os.getpid(), signal.SIGKILL)
            case 2:
                os._exit(7)
            case 3:
                threading.Event().wait()
            case 4:
                _held.append(np.ones(32 << 20, np.uint8))
            case 5:
                ctypes.string_at(0)
            case 6:
                raise ValueError("six is refused")
            case 7:
                sys.exit("seven leaves")
    return [np.array([os.getpid(), row[0]], np.int64) for row in rows]


obey.inputs = {"command": ("INT64", [1])}
obey.outputs = {"process": ("INT64", [2])}


def words(texts):
    return [text[::-1] for text in texts]


def ends(rows):
    return [{"both": row[[0, -1]], "back": row[::-1]} for row in rows]


ends.ragged = True
ends.inputs = {"ids": ("INT64", [-1])}
ends.outputs = {"both": ("INT64", [2]), "back": ("INT64", [-1])}


_seen = []


def remember(rows):
    """Gives the first row that it ever saw, from what it kept of it."""
    _seen.extend(rows)
    return [_seen[0] for _ in rows]


remember.inputs = {"x": ("FP32", [4])}
remember.outputs = {"first": ("FP32", [4])}
