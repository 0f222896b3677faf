"""One model file, seen from inside its worker process."""

import importlib
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xirang.backends.isolated.conversation import Conversation
from xirang.backends.isolated.messages import Load
from xirang.backends.requests import Asked, Responded
from xirang.backends.triton_python import module
from xirang.backends.triton_python.configuration import (
    ModelConfig,
    spec_of,
    using_decoupled_model_transaction_policy,
)
from xirang.backends.triton_python.exchange import (
    InferenceRequest,
    InferenceResponseSender,
    result_of,
)
from xirang.backends.triton_python.tensors import TritonModelException
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting

NAMES = ("triton_python_backend_utils", "c_python_backend_utils")
"""Under which model files import what is `module` here."""

CLASS = "TritonPythonModel"


class ModelFile:
    """A `model.py` and the one object that it makes; see `requests.RequestExecutable`.

    Attributes:
        declared: Its configuration, completed, as JSON.
    """

    platform = "python"
    is_reentrant = False
    keeps_inputs = True
    takes_requests = True

    def __init__(self, load: Load, conversation: Conversation) -> None:
        """Load the file, have it complete its configuration, and initialise it.

        Args:
            load: Its options hold the configuration and what `initialize` is told besides.
            conversation: To the server, for what the model wants of it.

        Raises:
            InvalidSetting: It cannot be loaded; says where it raised.
        """
        options = load.options
        self._name = load.name
        self._conversation = conversation
        InferenceRequest._server = conversation
        conversation.is_shared = True
        for name in NAMES:
            sys.modules[name] = module
        try:
            kind = _class_of(Path(load.target))
            config = json.loads(options["model_config"])
            if options["can_complete"]:
                config = _completed(kind, config)
            self.declared = json.dumps(config)
            self._model = kind()
            if hasattr(self._model, "initialize"):
                self._model.initialize(_arguments(load, self.declared))
        except (Exception, SystemExit) as error:
            raise InvalidSetting(_where(error, Path(load.target).parent.parent)) from error
        self.is_decoupled = using_decoupled_model_transaction_policy(config)
        is_batched = config.get("max_batch_size", 0) > 0
        self.inputs = _specs(config.get("input", ()), is_batched=is_batched)
        self.outputs = _specs(config.get("output", ()), is_batched=is_batched)
        self.optional = [each["name"] for each in config.get("input", ()) if each.get("optional")]
        self.takes_lists = _is_ragged(config.get("input", ()))

    def run_requests(self, requests: Sequence[Asked]) -> list[Responded]:
        """Have it execute them; see `requests.RequestExecutable`.

        Raises:
            TritonModelException: It answered something else than was expected.
            Exception: What it raised.
        """
        senders = [self._sender(index, asked) for index, asked in enumerate(requests)]
        made = [
            InferenceRequest.received(asked, sender)
            for asked, sender in zip(requests, senders, strict=True)
        ]
        returned = self._model.execute(made)
        if self.is_decoupled:
            if returned is not None:
                raise TritonModelException(
                    f"Python model '{self._name}' is using the decoupled mode and the execute "
                    "function must return None."
                )
            return [sender.last() for sender in senders]
        self._check(returned, len(requests))
        return [
            sender.last() if response is None else result_of(response, asked.wanted)
            for asked, sender, response in zip(requests, senders, returned, strict=True)
        ]

    def run(self, inputs: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
        """One request alone; see `Executable.run`."""
        (result,) = self.run_requests([Asked(inputs, wanted)])
        if not isinstance(result, dict):
            raise result
        return result

    def close(self) -> None:
        """Let it finish what it has to."""
        if hasattr(self._model, "finalize"):
            self._model.finalize()

    def _sender(self, index: int, asked: Asked) -> InferenceResponseSender:
        tell = partial(self._conversation.tell, index) if self.is_decoupled else None
        return InferenceResponseSender(tell, asked.wanted)

    def _check(self, returned: Any, count: int) -> None:
        if not isinstance(returned, list | tuple):
            raise TritonModelException(
                f"Expected a list in the execute return, found type '{type(returned)}'."
            )
        if len(returned) != count:
            raise TritonModelException(
                "Number of InferenceResponse objects do not match the number of InferenceRequest "
                f"objects. InferenceRequest(s) size is:{count}, and InferenceResponse(s) size "
                f"is:{len(returned)}"
            )


def _class_of(file: Path) -> Any:
    """The model's class. Its file is a module of a package that its folder is, as with Triton."""
    sys.dont_write_bytecode = True  # a repository is watched: nothing but its owner changes it
    for folder in (file.parent, file.parent.parent):
        sys.path.append(str(folder))
    loaded = importlib.import_module(f"{file.parent.name}.{file.stem}")
    return getattr(loaded, CLASS)


def _completed(kind: Any, config: dict[str, Any]) -> dict[str, Any]:
    complete = getattr(kind, "auto_complete_config", None)
    if complete is None:
        return config
    completed = complete(ModelConfig(config))
    if not isinstance(completed, ModelConfig):
        raise TypeError(
            f"auto_complete_config returned a {type(completed).__name__}; expected the ModelConfig"
        )
    return completed.as_dict()


def _arguments(load: Load, config: str) -> dict[str, str]:
    """What `initialize` is told."""
    options = load.options
    return {
        "model_config": config,
        "model_instance_kind": "CPU",
        "model_instance_name": f"{options['group']}_{load.instance}",
        "model_instance_device_id": "0",
        "model_repository": options["model_repository"],
        "model_version": options["model_version"],
        "model_name": load.name,
    }


def _specs(tensors: Sequence[Mapping[str, Any]], *, is_batched: bool) -> tuple[TensorSpec, ...]:
    specs = []
    for each in tensors:
        dims = each["reshape"].get("shape", []) if "reshape" in each else each["dims"]
        specs.append(spec_of(each["name"], each["data_type"], dims, is_batched=is_batched))
    return tuple(specs)


def _is_ragged(tensors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether requests of any shapes may share a run."""
    varying = [each for each in tensors if -1 in each["dims"]]
    return bool(varying) and all(each.get("allow_ragged_batch") for each in varying)


def _where(error: BaseException, folder: Path) -> str:
    """What a model raised, and in which of its lines."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    if not own:
        return words
    last = own[-1]
    return f"{words} ({last.filename}, line {last.lineno}, in {last.name})"
