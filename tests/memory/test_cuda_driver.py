"""Every call of the CUDA driver that the code makes, against the real package and the puppet.

No driver is needed for that: the package says at the head of each function what it takes.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest
from tests.support.cuda_driver import Driver

from xirang.memory import cuda_arena, cuda_driver, pinned_arena

SOURCES = (cuda_arena, cuda_driver, pinned_arena)


def calls():
    """Names of functions to how many arguments they are given, as the source has it."""
    found = {}
    for module in SOURCES:
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            given = node.args if isinstance(node, ast.Call) else []
            names = [n for n, each in enumerate(given) if is_name(each)]
            if names:
                found[given[names[0]].value] = len(given) - names[0] - 1
            elif isinstance(node, ast.Attribute) and re.match(r"cu[A-Z]", node.attr):
                found[node.attr] = 0  # the one that is called directly takes nothing
    return found


def is_name(node):
    return isinstance(node, ast.Constant) and re.match(r"cu[A-Z]", str(node.value))


def names_of_types():
    """Attributes of the module that are types and their members, as `Type.MEMBER`."""
    text = "".join(Path(module.__file__).read_text() for module in SOURCES)
    members = set(re.findall(r"(CUmem\w+)\.(CU_\w+)", text))
    return members | {("CUmemAllocationGranularity_flags", "CU_MEM_ALLOC_GRANULARITY_MINIMUM")}


def test_the_puppet_has_all_that_is_called():
    assert len(calls()) >= 17
    for name, count in calls().items():
        assert len(inspect.signature(getattr(Driver(), name)).parameters) == count, name


def test_the_real_driver_takes_what_it_is_given():
    driver = pytest.importorskip("cuda.bindings.driver")
    for name, count in calls().items():
        head = getattr(driver, name).__doc__.strip().splitlines()[0]
        said = re.sub(r"\[.*?\]", "", head.partition("(")[2].rpartition(")")[0])
        assert len([each for each in said.split(",") if each]) == count, head


def test_the_real_driver_has_the_types():
    driver = pytest.importorskip("cuda.bindings.driver")
    for kind, member in names_of_types():
        assert hasattr(getattr(driver, kind), member)
    assert driver.CU_MEMHOSTREGISTER_PORTABLE == pinned_arena.PORTABLE
    assert int(driver.CUresult.CUDA_SUCCESS) == 0
    wish, access = driver.CUmemAllocationProp(), driver.CUmemAccessDesc()
    wish.location.id = access.location.id = 1
    wish.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    assert wish.location.id == access.location.id == 1


def test_the_real_driver_takes_arguments_of_our_kinds():
    """Each call gets as far as looking for the driver's library: its arguments are understood."""
    driver = pytest.importorskip("cuda.bindings.driver")
    handle = driver.CUmemGenericAllocationHandle(3)
    for name, given in {
        "cuMemMap": (1 << 21, 1 << 21, 0, handle, 0),
        "cuMemSetAccess": (1 << 21, 1 << 21, [driver.CUmemAccessDesc()], 1),
        "cuMemHostRegister": (1 << 21, 1 << 21, 1),
        "cuMemHostUnregister": (1 << 21,),
        "cuMemCreate": (1 << 21, driver.CUmemAllocationProp(), 0),
        "cuMemAddressFree": (1 << 21, 1 << 21),
        "cuMemUnmap": (1 << 21, 1 << 21),
    }.items():
        with pytest.raises(TypeError):
            getattr(driver, name)(*[object()] * len(given))
        if is_driverless():
            with pytest.raises(RuntimeError, match=r"driver|libcuda"):
                getattr(driver, name)(*given)


def is_driverless():
    return not cuda_driver.pools_bytes()


def test_without_a_driver_the_real_package_is_understood_too():
    pytest.importorskip("cuda.bindings.driver")
    if is_driverless():
        with pytest.raises(cuda_driver.InvalidSetting, match="no CUDA"):
            cuda_driver.CudaDriver()
