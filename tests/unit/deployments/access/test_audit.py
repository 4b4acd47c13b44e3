# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.access.audit import AuditFile, AuditLog
from deployments.access.audit_line import AuditEvent, audit_line
from deployments.access.contracts import Role
from deployments.access.counters import AccessCounters
from deployments.access.guard import make_guard
from deployments.access.policy import AuditRules
from deployments.security.caller import Caller
from tests.support.access import HTTP, NOW_S, Clock, key_entry, made_key, write_policy
from tests.support.examples import examples

ALICE = Caller("alice", "vision", "jwt")


def _log(
    file: Path, *outcomes: str, share: float = 1.0, limit: int = 10_000
) -> tuple[AuditLog, AccessCounters]:
    counters = AccessCounters()
    log = AuditLog(Clock(), counters, limit)
    log.apply(AuditRules(str(file), frozenset(outcomes), share))
    return log, counters


def _rows(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_says_who_asked_what_of_which_model_and_what_came_of_it(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    log, _ = _log(file, "denied", "failed")
    log.note(ALICE, "grpc", "ModelInfer", "simple", "denied", 3)
    log.note(None, "http", "POST infer", "simple", "Not found", 3)
    log.note(ALICE, "grpc", "ModelInfer", "simple", "allowed", 3)
    log.close()
    first, second = _rows(file)
    assert first == {
        "time": "2027-01-15T08:00:00.000+00:00",
        "protocol": "grpc",
        "subject": "alice",
        "tenant": "vision",
        "method": "jwt",
        "what": "ModelInfer",
        "model": "simple",
        "outcome": "denied",
        "revision": 3,
    }
    assert (second["subject"], second["outcome"]) == ("", "Not found")
    assert file.stat().st_mode & 0o077 == 0


def test_a_share_of_what_is_allowed_is_written(tmp_path: Path) -> None:
    log, _ = _log(tmp_path / "audit", "allowed", "denied", share=0.25)
    for _ in range(100):
        log.note(ALICE, "http", "x", "", "allowed", 1)
    log.note(ALICE, "http", "x", "", "denied", 1)
    log.close()
    assert len(_rows(tmp_path / "audit")) == 26


def test_what_finds_the_queue_full_is_counted(tmp_path: Path) -> None:
    log, counters = _log(tmp_path / "audit", "denied", limit=0)
    log.note(ALICE, "http", "x", "", "denied", 1)
    assert counters.audit_dropped == 1


def test_what_cannot_be_written_is_counted_and_later_lines_are(tmp_path: Path) -> None:
    file = AuditFile()
    assert not file.write(str(tmp_path / "no" / "audit"), b"a\n")
    (tmp_path / "no").mkdir()
    assert file.write(str(tmp_path / "no" / "audit"), b"b\n")
    file.close()
    assert (tmp_path / "no" / "audit").read_bytes() == b"b\n"


def test_a_file_that_was_renamed_or_removed_is_made_anew(tmp_path: Path) -> None:
    path, file = tmp_path / "audit", AuditFile()
    file.write(str(path), b"a\n")
    path.rename(tmp_path / "audit.1")
    file.write(str(path), b"b\n")
    path.unlink()
    file.write(str(path), b"c\n")
    file.close()
    assert (tmp_path / "audit.1").read_bytes() == b"a\n"
    assert path.read_bytes() == b"c\n"


def test_a_guard_writes_denials_and_no_secret(tmp_path: Path) -> None:
    policy = {
        "authentication": {"api_keys": {"keys": [key_entry("alice")]}},
        "audit": {"file": str(tmp_path / "audit"), "outcomes": ["denied", "unauthenticated"]},
    }
    guard = make_guard(str(write_policy(tmp_path, policy)), Clock())
    rights = guard.identify([(b"x-api-key", made_key("alice").encode())], HTTP)
    assert not rights.may(Role.INFER, "simple")
    guard.note(rights, HTTP, "POST infer", "simple", "denied")
    guard.note(None, HTTP, "POST infer", "simple", "unauthenticated")
    guard.close()
    assert [row["outcome"] for row in _rows(tmp_path / "audit")] == ["denied", "unauthenticated"]
    assert made_key("alice") not in (tmp_path / "audit").read_text()
    assert guard.counters.denials == {"http": 1}


@settings(max_examples=examples(200))
@given(
    subject=st.text(st.characters(), max_size=600),
    model=st.text(st.characters(), max_size=600),
    what=st.sampled_from(("a\nb", "\x1b[2J", "\x7f", "\u2028", "\ud800", "\x9b")),
)
def test_any_values_are_one_bounded_line_of_printable_ascii(
    subject: str, model: str, what: str
) -> None:
    line = audit_line(AuditEvent(NOW_S, "http", Caller(subject), what, model, "denied", 1))
    assert line.endswith(b"\n")
    assert all(0x20 <= byte < 0x7F for byte in line[:-1])
    assert len(line) < 8192
    assert json.loads(line)["what"] == what


def test_a_log_that_is_closed_has_no_thread(tmp_path: Path) -> None:
    log, _ = _log(tmp_path / "audit", "denied")
    log.note(ALICE, "grpc", "ModelInfer", "simple", "denied", 3)
    assert log._thread is not None
    log.close()
    assert not log._thread.is_alive()


def test_a_guard_counts_what_its_log_cannot_write(tmp_path: Path) -> None:
    policy = {"audit": {"file": str(tmp_path / "gone" / "audit"), "outcomes": ["denied"]}}
    guard = make_guard(str(write_policy(tmp_path, policy)), Clock())
    guard.note(None, HTTP, "infer", "m", "denied")
    guard.close()
    assert guard.counters.audit_dropped == 1
