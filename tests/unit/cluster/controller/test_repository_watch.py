# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import logging

import pytest

from cluster.controller.poll import next_poll_s
from cluster.controller.repository_watch import RepositoryWatch
from cluster.repository.contents import RepositoryScan

HERE = RepositoryScan({"m": "s3://b/m", "n": "/local/n"}, digests={"m": b"1"})
AWAY = RepositoryScan(
    {"m": "s3://b/m", "n": "/local/n"},
    errors={"s3://b": "no route"},
    stale=frozenset({"s3://b"}),
    digests={"m": b"1"},
)
NEVER = RepositoryScan({"n": "/local/n"}, errors={"s3://b": "no route"})


def test_a_model_is_unchanged_once_it_was_read_with_its_digest_and_gpus():
    watch = RepositoryWatch()
    watch.saw(HERE)
    assert watch.unchanged("mn", ()) == frozenset()
    watch.note_read("m", b"1", ())
    assert watch.unchanged("mn", ()) == {"m"}
    assert watch.unchanged("m", (0,)) == frozenset()
    watch.saw(RepositoryScan({"m": "s3://b/m"}, digests={"m": b"2"}))
    assert watch.unchanged("m", ()) == frozenset()


def test_models_in_stores_have_the_digest_of_their_last_listing():
    watch = RepositoryWatch()
    watch.saw(HERE)
    assert (watch.digest_of("m"), watch.digest_of("n"), watch.digest_of("x")) == (b"1", b"", b"")


def test_a_model_that_went_and_came_back_is_read_again():
    watch = RepositoryWatch()
    watch.note_read("m", b"1", ())
    watch.saw(RepositoryScan({}))
    watch.saw(HERE)
    assert watch.unchanged("m", ()) == frozenset()


def test_what_goes_away_is_said_once_and_when_it_comes_back(caplog: pytest.LogCaptureFixture):
    watch = RepositoryWatch()
    with caplog.at_level(logging.INFO):
        for scan in (HERE, AWAY, AWAY, HERE, HERE):
            watch.saw(scan)
    assert [record.getMessage() for record in caplog.records] == [
        "failed to list model repository 's3://b': no route; what is served goes on",
        "model repository 's3://b' can be listed again",
    ]


def test_models_of_a_store_that_is_away_say_so():
    watch = RepositoryWatch()
    watch.saw(AWAY)
    assert watch.reason_of("m") == "model repository 's3://b' cannot be listed: no route"
    assert watch.reason_of("n") == ""
    assert watch.is_complete


def test_models_are_not_known_where_a_store_was_never_listed():
    watch = RepositoryWatch()
    watch.saw(NEVER)
    assert not watch.is_complete
    watch.saw(RepositoryScan({}, errors={"/gone": "No such file or directory"}))
    assert not watch.is_complete
    watch.saw(AWAY)
    assert watch.is_complete


def test_polls_are_a_tenth_early_at_most():
    assert next_poll_s(10, 0.0) == 10
    assert next_poll_s(10, 0.5) == 9.5
    assert 9 < next_poll_s(10, 0.999) < 9.1


def test_a_repository_is_reachable_until_a_listing_of_it_fails():
    watch = RepositoryWatch()
    watch.follow(("s3://b", "/local"))
    assert watch.reachable == {"s3://b": True, "/local": True}
    watch.saw(AWAY)
    assert watch.reachable == {"s3://b": False, "/local": True}
    watch.saw(HERE)
    assert watch.reachable == {"s3://b": True, "/local": True}


def test_only_what_goes_away_or_comes_back_is_a_change():
    changes: list[dict[str, bool]] = []
    watch = RepositoryWatch(lambda: changes.append(dict(watch.reachable)))
    watch.follow(("s3://b",))
    for scan in (HERE, AWAY, AWAY, HERE, HERE):
        watch.saw(scan)
    assert changes == [{"s3://b": False}, {"s3://b": True}]


def local(*names: str, identity: str = "1", **repositories: str) -> RepositoryScan:
    """Return a listing of the repository /r, and of others by name that have no model."""
    others = {f"/{name}": each for name, each in repositories.items()}
    return RepositoryScan(
        {name: f"/r/{name}" for name in names}, identities={"/r": identity, **others}
    )


def test_a_model_that_a_listing_is_without_is_gone():
    watch = RepositoryWatch()
    watch.saw(local("a", "b"))
    watch.saw(local("a"))
    assert watch.gone(["b"]) == ["b"]
    # Its unload may have failed.
    watch.saw(local("a"))
    assert watch.gone(["b"]) == ["b"]


def test_the_last_model_of_a_directory_is_gone_if_the_directory_is_the_same():
    watch = RepositoryWatch()
    watch.saw(local("a"))
    watch.saw(local(identity="1"))
    assert watch.gone(["a"]) == ["a"]


def test_models_of_an_empty_directory_are_gone_after_two_looks_in_a_row():
    watch = RepositoryWatch()
    for _ in range(2):
        watch.saw(local("a"))
        assert watch.gone([]) == []
        watch.saw(local(identity="2"))
        assert watch.gone(["a"]) == []
    watch.saw(local(identity="2"))
    assert watch.gone(["a"]) == ["a"]


def test_an_empty_repository_keeps_no_model_of_another():
    watch = RepositoryWatch()
    watch.saw(local("a", "b", other="7"))
    watch.saw(local("a", other="7"))
    assert watch.gone(["b"]) == ["b"]


def test_models_that_were_never_listed_are_kept_while_any_repository_is_empty_or_away():
    watch = RepositoryWatch()
    watch.saw(local("a", other="7"))
    assert watch.gone(["x"]) == []
    watch.saw(RepositoryScan({"a": "/r/a"}, errors={"/other": "away"}, identities={"/r": "1"}))
    assert watch.gone(["x"]) == []
    watch.saw(local("a", "y"))
    assert watch.gone(["x"]) == ["x"]


def test_models_of_a_repository_that_is_away_stay_as_they_are():
    watch = RepositoryWatch()
    watch.saw(AWAY)
    assert watch.away(["m", "n"]) == {"m"}
