"""Limits for the size of the built functions: a cold start loads all of it."""

import pytest

from harness import FUNCTIONS, bootstrap, zipped_size

BINARY_BYTES_MAX = 8_500_000
ZIP_BYTES_MAX = 4_000_000


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_small(function, tmp_path):
    path = bootstrap(function)
    binary, zipped = path.stat().st_size, zipped_size(path, tmp_path)
    print(f"{function}: {binary / 1e6:.2f} MB, zipped {zipped / 1e6:.2f} MB")
    assert binary <= BINARY_BYTES_MAX
    assert zipped <= ZIP_BYTES_MAX
