"""KServe's own client against xirang, in an environment of its own: `make judge-kserve`."""

import argparse
import subprocess
import tempfile
from pathlib import Path

from tests.support.models import add_sub

from xirang.lab.server import ServerProcess

CALLS = Path(__file__).with_name("kserve_calls.py")


def main() -> int:
    """Start a server and have the calls made; their exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="a Python that has kserve installed")
    python = parser.parse_args().python
    with tempfile.TemporaryDirectory() as folder:
        model = add_sub(Path(folder) / "add_sub.onnx")
        with ServerProcess([model], "--grpc-port", "0", "--learned", "off") as server:
            command = [python, str(CALLS), server.url, server.grpc_place or ""]
            return subprocess.run(command, timeout=120, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
