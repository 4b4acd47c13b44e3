# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles what backends in C are loaded with, so that their first model need not wait for it.

Without a C++ compiler it says so, and nothing else is the worse for it.
"""

from backends.api.errors import TritonError
from backends.custom import shim_library

if __name__ == "__main__":
    try:
        print(shim_library.path())
    except TritonError as error:
        print(error.message)
