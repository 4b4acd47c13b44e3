# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta policy``."""

import argparse
import getpass
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from backends.api.errors import InvalidArgumentError, TritonError
from cluster.commands.client.command_line import print_table
from cluster.commands.policy.cases import failures_of, read_cases
from deployments.access.keys import (
    KEY_BYTES,
    PREFIX,
    SALT_BYTES,
    hash_chosen,
    hash_made,
    make_key,
)
from deployments.access.policy_files import LoadedPolicy, load_policy
from deployments.access.signing_key_fetch import fetch_signing_keys
from deployments.settings.documents import shown_text

_LEAST_CHOSEN: Final = 8


def main(arguments: Sequence[str]) -> int:
    """Run ``manta policy`` and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        code: int = given.run(given)
    except TritonError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    except (OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manta policy", description="Check and try access policies, and make keys for them."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="say what is wrong with a policy and its files")
    check.add_argument("file", help="policy file")
    check.add_argument(
        "--fetch", action="store_true", help="fetch the keys of issuers of tokens, too"
    )
    check.set_defaults(run=_check)
    test = commands.add_parser(
        "test",
        help="try cases of who asks for what",
        epilog="exit code: 0 all cases are as expected, 1 some are not, 2 a file is wrong",
    )
    test.add_argument("file", help="policy file")
    test.add_argument("cases", help="YAML file of cases")
    test.set_defaults(run=_test)
    new = commands.add_parser("new-key", help="make an API key, and the entry to store")
    new.add_argument("subject", help="whom it stands for")
    new.add_argument("--tenant", default="")
    new.add_argument("--group", action="append", default=[], dest="groups")
    new.add_argument("--days", type=float, help="after which it expires")
    new.set_defaults(run=_new_key)
    hashed = commands.add_parser(
        "hash", help="hash a key that exists; it is asked for, or read from a pipe"
    )
    hashed.set_defaults(run=_hash)
    return parser


def _check(given: argparse.Namespace) -> int:
    loaded = load_policy(given.file)
    policy = loaded.policy
    for warning in _warnings(loaded):
        print(f"warning: {warning}", file=sys.stderr)
    for issuer in policy.issuers if given.fetch else ():
        if issuer.is_fetched:
            count = len(fetch_signing_keys(issuer).keys)
            print(f"fetched {count} keys of issuer '{issuer.issuer}'")
    print(
        f"{given.file}: ok, {len(loaded.keys.keys)} API keys, {len(policy.issuers)} issuers of"
        f" tokens, {len(policy.certificates)} rules for certificates, {len(policy.unix_peers)} for"
        f" users, {len(policy.grants)} grants, {len(policy.tenants)} tenants"
    )
    return 0


def _warnings(loaded: LoadedPolicy) -> Iterator[str]:
    """Return what may be meant, but probably is not."""
    policy, now_s = loaded.policy, time.time()
    for key in loaded.keys.keys:
        if not key.is_revoked and key.expires_s <= now_s:
            yield f"a key of '{key.identity.subject}' has expired; remove it or renew it"
    for issuer in policy.issuers:
        if issuer.jwks_url.startswith("http://"):
            yield f"keys of issuer '{issuer.issuer}' come over http, which anybody can change"
    ways = (policy.api_keys, policy.issuers, policy.certificates, policy.unix_peers)
    if not any(ways) and not policy.anonymous.groups:
        yield "there is no way to authenticate; everybody may what is public, and no more"
    if not policy.grants:
        yield "nothing is granted; everybody may what is public, and no more"


def _test(given: argparse.Namespace) -> int:
    loaded = load_policy(given.file)
    cases = read_cases(Path(given.cases).read_text(encoding="utf-8"), given.cases)
    failures = failures_of(loaded, cases)
    if failures:
        rows = [
            (shown_text(each.case.name), each.case.expected, each.outcome, each.reason)
            for each in failures
        ]
        print_table(("CASE", "EXPECTED", "GOT", "WHY"), rows)
    print(f"{len(cases) - len(failures)} of {len(cases)} cases are as expected")
    return 1 if failures else 0


def _new_key(given: argparse.Namespace) -> int:
    key = make_key(secrets.token_bytes(KEY_BYTES))
    entry: dict[str, Any] = {"subject": given.subject, "hash": hash_made(key)}
    if given.tenant:
        entry["tenant"] = given.tenant
    if given.groups:
        entry["groups"] = given.groups
    if given.days is not None:
        try:
            ends = datetime.now(UTC) + timedelta(days=given.days)
        except (OverflowError, ValueError):
            raise InvalidArgumentError(
                f"--days: got {given.days:g}, expected a number of days from now on"
            ) from None
        entry["expires"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    print("# The key, which is shown this once and kept nowhere:", file=sys.stderr)
    print(key)
    print("# The entry for 'keys' of the policy, or for a file of keys:", file=sys.stderr)
    print(yaml.safe_dump([entry], sort_keys=False).rstrip())
    return 0


def _hash(given: argparse.Namespace) -> int:
    del given
    key = getpass.getpass("key: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if len(key) < _LEAST_CHOSEN:
        raise InvalidArgumentError(
            f"the key has {len(key)} characters, expected at least {_LEAST_CHOSEN}; "
            "'manta policy new-key' makes one that cannot be guessed"
        )
    is_made = key.startswith(PREFIX) and len(key) >= len(make_key(bytes(KEY_BYTES)))
    print(hash_made(key) if is_made else hash_chosen(key, secrets.token_bytes(SALT_BYTES)))
    return 0
