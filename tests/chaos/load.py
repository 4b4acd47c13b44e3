# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mixed load: clients of all kinds of traffic over both protocols, which write everything down."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.chaos import wire
from tests.chaos.questions import Question, Questions, questions_of
from tests.chaos.records import (
    BLS,
    ENSEMBLE,
    FAR,
    HEAD,
    HUNG,
    LOST,
    OK,
    REFUSED,
    SEQUENCE,
    SHARED,
    STREAM,
    UNARY,
    WRONG,
    Journal,
    Record,
)
from tests.chaos.shared_region import SharedRegion
from tests.support.busy_clients import ConnectionEndedError, HttpPeer

# The server is to have the processors, not the clients.
_THINKS_S: Final = 0.01
_PAUSE_S: Final = 0.1
_CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
# A stream carries so many questions before another is opened.
_QUESTIONS_PER_STREAM: Final = 16


@dataclass(frozen=True)
class Address:
    """Where a node's ingresses are, as host:port."""

    http: str
    grpc: str


@dataclass(frozen=True)
class Part:
    """Clients that are alike.

    Attributes:
        traffic: What they ask for.
        protocol: http or grpc.
        node: Whose ingresses they ask.
        clients: How many they are.
    """

    traffic: str
    protocol: str
    node: str = HEAD
    clients: int = 1


MIX: Final = (
    Part(UNARY, "http", HEAD, 3),
    Part(UNARY, "grpc", HEAD, 3),
    Part(UNARY, "http", FAR, 2),
    Part(UNARY, "grpc", FAR, 2),
    Part(ENSEMBLE, "http", HEAD, 1),
    Part(ENSEMBLE, "grpc", FAR, 1),
    Part(BLS, "http", HEAD, 1),
    Part(BLS, "grpc", FAR, 1),
    Part(SEQUENCE, "http", HEAD, 3),
    Part(SEQUENCE, "grpc", FAR, 2),
    Part(STREAM, "grpc", HEAD, 2),
    Part(STREAM, "grpc", FAR, 1),
    Part(SHARED, "http", HEAD, 1),
    Part(SHARED, "grpc", HEAD, 1),
)


class Load:
    """The clients.

    Args:
        addresses: Node -> where its ingresses are. Clients of other nodes ask the head's.
        patience_s: How long a client waits for an answer.
        name: What the names of regions begin with.
        first: Number of the first client: no other load of the run has it.
    """

    def __init__(
        self, addresses: dict[str, Address], patience_s: float, name: str, first: int = 0
    ) -> None:
        self._stop = threading.Event()
        self._regions: list[tuple[SharedRegion, str]] = []
        self._patience_s = patience_s
        self._clients: list[_Client] = []
        for part in MIX:
            node = part.node if part.node in addresses else HEAD
            for _ in range(part.clients):
                number = first + len(self._clients)
                region = None
                if part.traffic == SHARED:
                    region = SharedRegion(f"{name}-{number}")
                    region.register(addresses[node].http, patience_s)
                    self._regions.append((region, addresses[node].http))
                kind = _KINDS[part.protocol, part.traffic == STREAM]
                self._clients.append(
                    kind(part, node, addresses[node], number, self._stop, patience_s, region)
                )
        for client in self._clients:
            client.start()

    def journals(self) -> list[Journal]:
        """Return what has been written down so far."""
        return [client.journal for client in self._clients]

    def wait_warm(self, each: int, timeout_s: float) -> None:
        """Wait until each client has had that many answers.

        Raises:
            TimeoutError: They did not have them in time.
        """
        until_s = time.monotonic() + timeout_s
        while any(self._answers(client) < each for client in self._clients):
            if time.monotonic() > until_s:
                cold = [c.name for c in self._clients if self._answers(c) < each]
                last = [c.journal.records[-1:] for c in self._clients if self._answers(c) < each]
                raise TimeoutError(f"no answers for {cold} within {timeout_s:g} s: {last}")
            time.sleep(_PAUSE_S)

    def stop(self) -> list[Journal]:
        """Send no further request, wait for what is under way, return everything.

        Raises:
            AssertionError: A client waits longer than it should: this module is wrong.
        """
        self._stop.set()
        until_s = time.monotonic() + self._patience_s + 10
        for client in self._clients:
            client.join(max(0.0, until_s - time.monotonic()))
        hung = [client.name for client in self._clients if client.is_alive()]
        assert not hung, f"clients hang: {hung}"
        for region, address in self._regions:
            region.unregister(address, self._patience_s)
        return self.journals()

    @staticmethod
    def _answers(client: "_Client") -> int:
        return sum(record.kind == OK for record in client.journal.records)


class _Client(threading.Thread):
    """Asks one question after the other."""

    def __init__(
        self,
        part: Part,
        node: str,
        address: Address,
        number: int,
        stop: threading.Event,
        patience_s: float,
        region: SharedRegion | None,
    ) -> None:
        name = f"{part.protocol}-{part.traffic}-{node}-{number}"
        super().__init__(name=name, daemon=True)
        self.journal = Journal()
        self.part = part
        self.node = node
        self.address = address
        self.patience_s = patience_s
        self.region = region
        self.stopping = stop
        has_large = part.protocol == "grpc"
        self.questions: Questions = questions_of(part.traffic, number, has_large=has_large)

    @property
    def is_done(self) -> bool:
        """Whether it is to ask no more; a sequence that has begun is ended first."""
        return self.stopping.is_set() and not self.questions.is_midway

    def begin(self) -> Question:
        """Return the next question, noted as sent."""
        question = self.questions.next()
        if self.region is not None:
            self.region.put(question)
        self.journal.sent.append(str(question.number))
        return question

    def note(
        self,
        question: Question,
        begin_s: float,
        outcome: wire.Outcome,
        port: int = 0,
        *,
        is_first: bool = False,
    ) -> str:
        """Write down what became of a question; return its kind."""
        kind, code, detail = outcome
        self._write(question, begin_s, kind, code, detail, port, is_first)
        self.questions.settle(kind)
        self.stopping.wait(_THINKS_S if kind == OK else _PAUSE_S)
        return kind

    def note_refused(self, begin_s: float, detail: str) -> None:
        """Write down that no connection was made."""
        self.journal.records.append(
            Record(
                self.name, self.part.traffic, self.part.protocol, self.node, "-", REFUSED,
                begin_s, time.monotonic(), detail=detail,
            )
        )  # fmt: skip
        self.stopping.wait(_PAUSE_S)

    def _write(
        self, question: Question, begin_s: float, kind: str, code: str, detail: str, port: int,
        is_first: bool,
    ) -> None:  # fmt: skip
        self.journal.records.append(
            Record(
                self.name, self.part.traffic, self.part.protocol, self.node, str(question.number),
                kind, begin_s, time.monotonic(), code, port, is_first, question.sequence, detail,
            )
        )  # fmt: skip


class _HttpClient(_Client):
    """Over keep-alive connections, one at a time."""

    def run(self) -> None:
        while not self.is_done:
            begin_s = time.monotonic()
            try:
                peer = HttpPeer(self.address.http, self.patience_s)
            except OSError as error:
                self.questions.settle(REFUSED)
                self.note_refused(begin_s, f"{type(error).__name__} {error}")
                continue
            try:
                self._ask_over(peer)
            finally:
                peer.close()

    def _ask_over(self, peer: HttpPeer) -> None:
        is_first = True
        while not (peer.is_closing or self.is_done):
            question = self.begin()
            begin_s = time.monotonic()
            outcome = self._ask(peer, question)
            if outcome[0] == OK and peer.has_more():
                outcome = WRONG, "", "more follows the answer"
            kind = self.note(question, begin_s, outcome, peer.port, is_first=is_first)
            if kind in {LOST, HUNG, WRONG}:
                return
            is_first = False

    def _ask(self, peer: HttpPeer, question: Question) -> wire.Outcome:
        path = f"/v2/models/{question.model}/infer"
        try:
            status, answer = peer.exchange("POST", path, wire.http_body(question, self.region))
        except ConnectionEndedError as error:
            return LOST, "", str(error)
        except TimeoutError:
            return HUNG, "", f"no answer within {self.patience_s:g} s"
        except OSError as error:
            return LOST, "", f"{type(error).__name__} {error}"
        return wire.of_http(question, self.region, status, answer)


class _GrpcClient(_Client):
    """Over a channel of its own."""

    def run(self) -> None:
        while not self.is_done:
            with grpc.insecure_channel(self.address.grpc, _CHANNEL_OPTIONS) as channel:
                stub = GRPCInferenceServiceStub(channel)
                while not self.is_done and self._ask(stub):
                    pass

    def _ask(self, stub: Any) -> bool:
        """Ask a question; return whether the channel still is good."""
        question = self.begin()
        begin_s = time.monotonic()
        outcome: wire.Outcome
        try:
            request = wire.grpc_request(question, self.region)
            answer = stub.ModelInfer(request, timeout=self.patience_s)
        except grpc.RpcError as error:
            outcome = wire.of_rpc_error(error)
        else:
            outcome = wire.of_grpc(question, self.region, [answer])
        if outcome[0] == REFUSED:
            # It has not been sent.
            self.journal.sent.pop()
            self.questions.settle(REFUSED)
            self.note_refused(begin_s, outcome[2])
            return False
        return self.note(question, begin_s, outcome) not in {LOST, HUNG}


class _StreamClient(_Client):
    """Over bidirectional streams, with some questions each."""

    def run(self) -> None:
        while not self.is_done:
            with grpc.insecure_channel(self.address.grpc, _CHANNEL_OPTIONS) as channel:
                while not self.is_done and self._ask_over(channel):
                    pass

    def _ask_over(self, channel: grpc.Channel) -> bool:
        """Ask questions over a stream; return whether the channel still is good."""
        requests: queue.SimpleQueue[service_pb2.ModelInferRequest | None] = queue.SimpleQueue()
        timeout_s = self.patience_s
        stub = GRPCInferenceServiceStub(channel)
        answers = stub.ModelStreamInfer(iter(requests.get, None), timeout=timeout_s)
        until_s = time.monotonic() + timeout_s / 4
        try:
            for _ in range(_QUESTIONS_PER_STREAM):
                if self.stopping.is_set() or time.monotonic() > until_s:
                    break
                if not self._ask(requests.put, answers):
                    return False
        finally:
            requests.put(None)
        return True

    def _ask(
        self,
        put: Callable[[service_pb2.ModelInferRequest], None],
        answers: Iterator[service_pb2.ModelStreamInferResponse],
    ) -> bool:
        question = self.begin()
        begin_s = time.monotonic()
        request = wire.grpc_request(question, None)
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        put(request)
        outcome: wire.Outcome
        try:
            outcome = self._outcome(question, answers)
        except grpc.RpcError as error:
            outcome = wire.of_rpc_error(error)
        except StopIteration:
            outcome = LOST, "", "the stream ended in place of an answer"
        if outcome[0] == REFUSED:
            self.journal.sent.pop()
            self.questions.settle(REFUSED)
            self.note_refused(begin_s, outcome[2])
            return False
        return self.note(question, begin_s, outcome) == OK

    @staticmethod
    def _outcome(
        question: Question, answers: Iterator[service_pb2.ModelStreamInferResponse]
    ) -> wire.Outcome:
        found = []
        while True:
            each = next(answers)
            if each.error_message:
                return wire.of_stream_error(each.error_message)
            answer = each.infer_response
            if answer.outputs:
                found.append(answer)
            if answer.parameters["triton_final_response"].bool_param:
                return wire.of_grpc(question, None, found)


_KINDS: Final[dict[tuple[str, bool], type[_Client]]] = {
    ("http", False): _HttpClient,
    ("grpc", False): _GrpcClient,
    ("grpc", True): _StreamClient,
}
