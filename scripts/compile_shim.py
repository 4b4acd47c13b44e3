# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles what backends in C are loaded with, so that their first model need not wait for it.

And the fork server's client. Without a compiler it says so, and nothing else is the worse for it.
"""

from backends.api.errors import TritonError
from backends.custom import shim_library
from cluster.fork_server import client_file

if __name__ == "__main__":
    try:
        print(f"loader of backends in C: {shim_library.path()}")
    except TritonError as error:
        print(error.message)
    print(f"client of the fork server: {client_file.compiled(client_file.compiled_place())}")
