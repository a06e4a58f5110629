"""Test of `benches/bench.py`: each of its cases runs once with the built functions. So a change of a function cannot break `make bench` unseen."""

import asyncio
import os
import signal

import bench
import pytest
from harness import bootstrap


async def run_each_case_once(folder):
    processes = {name: bench.make_process(name, [str(bootstrap(name))], bench.ENVIRONMENT, folder) for name in bench.FUNCTIONS}
    try:
        for process in processes.values():
            await process.start()
        cases = await bench.make_cases(processes["ingress"], processes["consumer"])
        cases = [case for case in cases if case.function in processes]
        for case in cases:
            case.invocations = 1
        await bench.measure(cases, processes)
        return cases
    finally:
        for process in processes.values():
            await process.stop()


def test_every_function_runs_its_cases_of_the_benchmark(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "ROUNDS", 0)
    cases = asyncio.run(run_each_case_once(tmp_path))
    assert {case.function for case in cases} == set(bench.FUNCTIONS)
    by_name = {(case.function, case.name): case for case in cases}
    assert by_name["ingress", "Retell, 5 KB, accepted"].requests == {"PutItem": 1, "SendMessage": 1}
    assert by_name["ingress", "Retell, 5 KB, wrong signature"].requests == {}


async def run_after_the_function_ended(folder, failure):
    process = bench.make_process("ingress", [str(bootstrap("ingress"))], bench.ENVIRONMENT, folder)
    try:
        await process.start()
        if failure:
            process.fail(failure)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.sleep(0.2)
        await asyncio.wait_for(process.run([b"{}"]), 5)
    finally:
        await process.stop()


@pytest.mark.parametrize(("failure", "said"), [(None, "it has ended"), ("it reports an error", "it reports an error")])
def test_function_that_ended_between_two_runs_fails_the_next_one_at_once(tmp_path, failure, said):
    with pytest.raises(RuntimeError, match=said):
        asyncio.run(run_after_the_function_ended(tmp_path, failure))
