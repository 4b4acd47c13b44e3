# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import resource
import subprocess
import sys

PROGRAM = """
import resource
import sys
import threading

from deployments.instance.freed_memory import keep_freed_memory

def execute():
    for _ in range(50):
        arrays = [bytearray(600_000), bytearray(600_000)]
        del arrays

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=execute)
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if "keep" in sys.argv:
    keep_freed_memory()
print(faults())
"""


# Of the two arrays of an execution.
PAGES = 2 * 600_000 // resource.getpagesize()


def faults_of(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ".", "MANTA_COMPILED": "0", **environment},
    )
    return int(done.stdout)


def test_large_arrays_of_each_execution_fault_their_pages_in_once():
    assert faults_of("keep") < 2 * PAGES


def test_what_the_environment_says_of_malloc_is_left_alone():
    told = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    assert faults_of("keep", **told) > 10 * PAGES
