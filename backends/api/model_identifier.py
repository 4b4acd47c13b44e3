# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How models of one name in several repositories are told apart (``--model-namespacing``).

A model is known by its *key*. Without namespacing that is its name. With it, a model of a
repository is in a namespace, which is the repository's path as the command line gives it, and its
key is the namespace, a slash and the name. No name has a slash, so a key alone says which it is.

Triton: core/src/model.h ModelIdentifier @73aad7c
"""


def key_of(namespace: str, name: str) -> str:
    """Return the key of a model; ``namespace`` is empty for one without."""
    return f"{namespace}/{name}" if namespace else name


def namespace_of(key: str) -> str:
    """Return the namespace of a key; empty when it has none."""
    return key.rpartition("/")[0]


def name_of(key: str) -> str:
    """Return the name in a key."""
    return key.rpartition("/")[2]


def shown(key: str) -> str:
    """Return a key as messages and logs show it: ``namespace::name``, or the name alone."""
    namespace, slash, name = key.rpartition("/")
    return f"{namespace}::{name}" if slash else name
