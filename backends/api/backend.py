# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The contract between Manta and a backend.

A `Backend` knows a model format; `Backend.load` makes a `ModelInstance`, which runs in a process
of its own and executes one batch at a time on one thread. Nothing here may import Ray or open
sockets: a backend must work in a plain Python process.

Triton: core/include/triton/core/tritonbackend.h @73aad7c
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from backends.api.custom_metrics import CustomFamily
from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.model_caller import ModelCaller
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse

Pause = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Everything a backend is told when it loads one instance.

    Attributes:
        config: The model's config; complete, unless handed to ``auto_complete``.
        model_dir: Local path of ``<repository>/<model>``.
        version: Version number being loaded.
        instance_name: Triton's instance name, ``<group>_<k>``.
        kind: CPU, GPU or MODEL.
        device_id: Index of the GPU; 0 for CPU.
        thread_count: Threads the instance may compute with.
        backend_config: ``--backend-config`` settings for this backend.
        caller: What the model calls other models with; None outside a server.
        pause: A context to wait for a called model in, in which the execution holds none of its
            resources; None when it needs none.
    """

    config: ModelConfig
    model_dir: str
    version: int
    instance_name: str
    kind: str = "CPU"
    device_id: int = 0
    thread_count: int = 1
    backend_config: Mapping[str, str] = field(default_factory=dict)
    caller: ModelCaller | None = None
    pause: Pause | None = None

    @property
    def version_dir(self) -> str:
        """Local path of the version directory."""
        return f"{self.model_dir}/{self.version}"

    def model_path(self, default: str) -> str:
        """Return the path of the model's file or directory, named ``default`` unless configured.

        Raises:
            InvalidArgumentError: ``default_model_filename`` points out of the version directory.
        """
        name = self.config.default_model_filename or default
        parts = name.split("/")
        if name.startswith("/") or ".." in parts:
            raise InvalidArgumentError(
                f"model '{self.config.name}' has default_model_filename '{name}', which must be a "
                "path inside the version directory"
            )
        return f"{self.version_dir}/{name}"


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that a model brings along for the processes of its instances.

    Attributes:
        parameter: The parameter of the model's config that names it.
        path: The file or folder it is in; the model loads anew when that changes.
        command: What to put before the command of a worker process, as shell words.
    """

    parameter: str
    path: str
    command: str


# Given a model's config and directory, returns the environment that the model brings; None when it
# runs in the server's. Raises InvalidArgumentError when the config is wrong about it. The control
# plane calls it, in a process that runs no model.
EnvironmentOf = Callable[[ModelConfig, str], Environment | None]


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """What a model's files tell without the framework that runs them.

    Attributes:
        config: The config, completed as far as they tell.
        is_complete: Whether a load ends with these inputs, outputs and batch sizes.
        left_open: What only a load finds out, one line each.
    """

    config: ModelConfig
    is_complete: bool = True
    left_open: tuple[str, ...] = ()


class CheckFiles(Protocol):
    """Checks the files of a model that is not loaded; a module ``check`` of its backend has one."""

    def __call__(self, context: LoadContext, *, auto_complete: bool) -> CheckedFiles:
        """Check them.

        Args:
            context: What would be loaded.
            auto_complete: Whether the backend would complete the config first.

        Raises:
            TritonError: The load would fail; the message is the load's where that is known.
        """


class ExecuteRequest(Protocol):
    """One request of a batch, and the way to answer it.

    ``respond`` or ``fail`` is called with final=True exactly once; a decoupled model may call both
    with final=False any number of times before, from any thread, also after
    ``ModelInstance.execute`` has returned.
    """

    @property
    def request(self) -> InferenceRequest:
        """The request; its inputs' bytes are valid until the final response."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has gone or cancelled."""

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        """Send a response; None with final=True only closes the stream of responses."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Answer with an error; only a decoupled model may go on after one with final=False."""

    def reschedule(self) -> None:
        """Have the request executed once more after this execution, if it is unanswered by then.

        Where the model's sequence batcher is not iterative, the request fails instead.
        """


@dataclass(slots=True)
class ExecuteBatch:
    """The requests of one execution.

    Attributes:
        requests: The requests; never empty.
        compute_input_end_ns: Set by the backend to ``time.monotonic_ns()`` once inputs are
            gathered; 0 counts no input time.
        compute_output_start_ns: Likewise when the model is done; 0 counts no output time.
    """

    requests: Sequence[ExecuteRequest]
    compute_input_end_ns: int = 0
    compute_output_start_ns: int = 0


class ModelInstance(ABC):
    """One loaded copy of a model."""

    @abstractmethod
    def execute(self, batch: ExecuteBatch) -> None:
        """Run the batch and answer its requests.

        Called on one thread, never concurrently with itself. On return, requests of a model that is
        not decoupled must have been answered; an exception fails every unanswered one.

        Raises:
            TritonError: Fails all unanswered requests with this code and message.
            Exception: Any other exception fails them as INTERNAL.
        """

    @property
    def has_readiness(self) -> bool:
        """Whether `is_ready` may say no; instances of which it does not are never asked."""
        return False

    def is_ready(self) -> bool:
        """Whether the instance can serve; asked by model readiness, on any thread."""
        return True

    def custom_metrics(self) -> list[CustomFamily]:
        """Return the model's own metrics; from any thread."""
        return []

    def close(self) -> None:  # noqa: B027 - most instances have nothing to free
        """Free what the instance holds; called once, after the last execute."""


class Backend(ABC):
    """A model format.

    A backend whose models may bring an environment of their own also registers an
    `EnvironmentOf`; see `backends.registry`.
    """

    @abstractmethod
    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Return ``context.config`` with what the model's files tell filled in.

        Raises:
            TritonError: The files cannot be read or contradict the config.
        """

    @abstractmethod
    def load(self, context: LoadContext) -> ModelInstance:
        """Load one instance.

        Raises:
            TritonError: The model cannot be loaded; the message says why.
        """
