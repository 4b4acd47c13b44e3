# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the agents of one model: over its files before a load, and told afterwards what came of it.

Blocks, and knows neither Ray nor a loop: it runs on the node that has the files, on a thread.
"""

import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from backends.api.errors import InternalError, TritonError
from cluster.repository.agents.contracts import Action, AgentModel, RepositoryAgent
from cluster.repository.agents.registry import find_agent
from cluster.repository.trees import copy_tree
from deployments.model_files.contracts import AgentCall

_log = logging.getLogger(__name__)

_IN_REVERSE: Final = frozenset({Action.LOAD_COMPLETE, Action.LOAD_FAIL, Action.UNLOAD_COMPLETE})


def make_tree(
    model_name: str, calls: Sequence[AgentCall], config_json: str, directory: Path, made: Path
) -> None:
    """Have agents make of a model's files what is loaded: a tree of its own, of links if it can be.

    Args:
        model_name: The model.
        calls: Its agents.
        config_json: Its config.
        directory: Its files, which are left as they are.
        made: An empty directory; gone when an agent refuses.

    Raises:
        TritonError: As `AgentChain`, and `AgentChain.load`.
        OSError: The tree cannot be written.
    """
    made.rmdir()
    chain = AgentChain(model_name, calls, config_json)
    if chain.load(directory, made) != made:
        copy_tree(directory, made, links=True)


class AgentChain:
    """The agents of one load of a model, in the order of its config.

    Raises:
        InvalidArgumentError: There is no such agent.
        InternalError: An agent cannot be made.

    Triton: core/src/model_repository_manager/model_repository_manager.cc
    CreateAgentModelListWithLoadAction @73aad7c
    """

    def __init__(
        self,
        model_name: str,
        calls: Sequence[AgentCall],
        config_json: str = "{}",
        find: Callable[[str], RepositoryAgent] = find_agent,
    ) -> None:
        self._model_name = model_name
        self._calls = tuple(calls)
        self._config_json = config_json
        self._agents = tuple(find(call.name) for call in calls)
        self._directory = Path()

    @property
    def changes_files(self) -> bool:
        """Whether what is loaded is a copy that the agents have made something else of."""
        return any(agent.changes_files for agent in self._agents)

    def load(self, directory: Path, copy: Path) -> Path:
        """Have each agent look at, or change, the files; the first error ends it.

        Agents that were asked, the one that refused included, then get LOAD_FAIL in reverse order,
        and nothing of the copy is left.

        Args:
            directory: The model's directory, which is left as it is.
            copy: Where to copy it to, if an agent changes files; not there yet.

        Returns:
            What to load the model from: ``copy``, which is the caller's to remove, or
            ``directory``.

        Raises:
            TritonError: An agent refuses. InternalError, with the agent's name, when it fails
                otherwise, or the copy cannot be written.
        """
        self._directory = directory
        asked = 0
        try:
            for number, agent in enumerate(self._agents):
                if agent.changes_files and self._directory != copy:
                    self._copy(directory, copy)
                    self._directory = copy
                asked = number + 1
                self._act(number, Action.LOAD)
        except BaseException:
            self._tell(Action.LOAD_FAIL, reversed(range(asked)))
            shutil.rmtree(copy, ignore_errors=True)
            raise
        return self._directory

    def resume(self, directory: Path) -> None:
        """Take over what an earlier process has had the agents make."""
        self._directory = directory

    def notify(self, action: Action) -> None:
        """Tell every agent what came of the load; an error is logged, and the others still told.

        In the order of the config, and in reverse for what ends something.

        Triton: core/src/model_repository_manager/model_lifecycle.h
        TritonRepoAgentModelList::InvokeAgentModels @73aad7c
        """
        numbers = range(len(self._agents))
        self._tell(action, reversed(numbers) if action in _IN_REVERSE else numbers)

    def _tell(self, action: Action, numbers: Iterable[int]) -> None:
        for number in numbers:
            try:
                self._act(number, action)
            except TritonError as error:
                _log.error(
                    "Agent model returns error on TRITONREPOAGENT_ACTION_%s: %s",
                    action.value,
                    error.as_string(),
                )

    def _act(self, number: int, action: Action) -> None:
        call = self._calls[number]
        parameters = dict(call.parameters)
        model = AgentModel(self._model_name, self._directory, parameters, self._config_json)
        try:
            self._agents[number].act(action, model)
        except TritonError:
            raise
        except Exception as error:
            raise InternalError(
                f"repository agent '{call.name}' failed on {action.value} of model "
                f"'{self._model_name}': {type(error).__name__}: {error}"
            ) from error

    def _copy(self, directory: Path, copy: Path) -> None:
        changing = [agent for agent in self._agents if agent.changes_files]
        links = all(getattr(agent, "replaces_files", False) for agent in changing)
        try:
            copy_tree(directory, copy, links=links)
        except OSError as error:
            raise InternalError(
                f"the files of model '{self._model_name}' cannot be copied to '{copy}' for its "
                f"repository agents: {error}"
            ) from error
