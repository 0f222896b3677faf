"""Models of repositories come and go as their files, or clients, want."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from tests.support.repositories import bytes_of, put, set_back

from xirang.config import Config, ModelSettings
from xirang.core.event import EvictionProposed
from xirang.engine.engine import Engine
from xirang.errors import InvalidRequest, InvalidSetting, NotReady, UnknownModel
from xirang.repository import catalogue as module
from xirang.repository.catalogue import CHANGED, Catalogue

QUICK = ModelSettings(learned="off", warmup_s=0)


@contextlib.asynccontextmanager
async def opened(*roots, mode="explicit", load=(), **settings):
    """An engine with a catalogue of these repositories."""
    config = Config(
        model=QUICK,
        model_repository=tuple(map(str, roots)),
        model_control_mode=mode,
        load_model=load,
        **settings,
    )
    async with Engine() as engine:
        catalogue = Catalogue(engine, config, {})
        await catalogue.open()
        yield engine, catalogue
        await settled(catalogue)


async def settled(catalogue):
    """Wait for all who leave."""
    await asyncio.gather(*catalogue._farewells)
    await asyncio.sleep(0)


async def ask(engine, name="m"):
    outputs = await engine.infer(name, {"x": [[0]]})
    return int(outputs["y"][0, 0])


def states(engine):
    return [tuple(each.get(k) for k in ("name", "version", "state")) for each in engine.index()]


def reason(engine, name):
    (found,) = [each["reason"] for each in engine.index() if each["name"] == name]
    return found


# ---------------------------------------------------------------------- none


def test_everything_is_loaded_once_and_what_cannot_be_takes_nobody_along(tmp_path):
    put(tmp_path, "m", 1, number=1)
    put(tmp_path, "m", 2, number=2)
    put(tmp_path, "bad", config="foo: 1")
    put(tmp_path, "broken").write_bytes(b"this is no model")
    put(tmp_path, "all", 1, config="version_policy { all { } }")
    put(tmp_path, "all", 3)
    (tmp_path / "empty").mkdir()

    async def test():
        async with opened(tmp_path, mode="none") as (engine, catalogue):
            assert await ask(engine) == 2
            assert states(engine) == [
                ("all", "1", "READY"),
                ("all", "3", "READY"),
                ("bad", None, "UNAVAILABLE"),
                ("broken", "1", "UNAVAILABLE"),
                ("empty", None, "UNAVAILABLE"),
                ("m", "2", "READY"),
            ]
            assert reason(engine, "bad").startswith("bad/config.pbtxt: 1:1: Message type")
            assert "is not a model that ONNX Runtime loads" in reason(engine, "broken")
            assert reason(engine, "empty").startswith("at least one version must be available")
            assert not engine.is_ready()
            assert len(list(catalogue.loaded())) == 3
            for act in (catalogue.load("m", {}), catalogue.unload("m")):
                with pytest.raises(NotReady, match="explicit model load / unload is not allowed"):
                    await act

    asyncio.run(test())


def test_of_a_name_in_two_repositories_nobody_serves(tmp_path):
    put(tmp_path / "a", "both")
    put(tmp_path / "b", "both")
    put(tmp_path / "b", "m", number=4)

    async def test():
        async with opened(tmp_path / "a", tmp_path / "b", mode="none") as (engine, _):
            assert await ask(engine) == 4
            assert reason(engine, "both") == (
                "several model repositories have a model of that name"
            )

    asyncio.run(test())


def test_a_repository_that_is_no_folder_is_refused(tmp_path):
    config = Config(model_repository=(str(tmp_path / "nowhere"),))
    with pytest.raises(InvalidSetting, match="is no folder"):
        Catalogue(Engine(), config, {})


def test_links_out_of_the_repository_are_refused(tmp_path):
    secret = put(tmp_path / "elsewhere", "secret")
    put(tmp_path / "repository", "m", number=1)
    (tmp_path / "repository" / "linked").symlink_to(secret.parent.parent)
    (tmp_path / "repository" / "file" / "1").mkdir(parents=True)
    (tmp_path / "repository" / "file" / "1" / "model.onnx").symlink_to(secret)

    async def test():
        async with opened(tmp_path / "repository", mode="none") as (engine, _):
            for name in ("linked", "file"):
                assert "leads out of the model repository" in reason(engine, name)
            assert await ask(engine) == 1

    asyncio.run(test())


# ---------------------------------------------------------------------- explicit


def test_clients_load_and_unload_what_they_want(tmp_path):
    put(tmp_path, "m", number=1)
    put(tmp_path, "other")

    async def test():
        async with opened(tmp_path, load=("nosuch",)) as (engine, catalogue):
            assert states(engine)[0] == ("m", None, None)
            assert reason(engine, "nosuch") == "failed to poll from model repository"
            await catalogue.load("m", {})
            assert await ask(engine) == 1
            await catalogue.unload("m")
            await settled(catalogue)
            with pytest.raises(UnknownModel, match="has no available versions"):
                await ask(engine)
            assert reason(engine, "m") == "unloaded"
            await catalogue.load("m", {})
            assert await ask(engine) == 1
            await catalogue.unload("nosuch")
            assert engine.is_ready()
            for name in ("nosuch", "../m", ".."):
                with pytest.raises(UnknownModel, match="failed to poll from model repository"):
                    await catalogue.load(name, {})

    asyncio.run(test())


def test_all_are_loaded_for_a_star_and_named_ones_by_name(tmp_path):
    put(tmp_path, "a")
    put(tmp_path, "b")

    async def test():
        async with opened(tmp_path, load=("*",)) as (engine, _):
            assert engine.model_names() == ["a", "b"]
        async with opened(tmp_path, load=("b",)) as (engine, _):
            assert engine.model_names() == ["b"]
            assert states(engine) == [("a", None, None), ("b", "1", "READY")]

    asyncio.run(test())


def test_a_model_is_loaded_again_only_if_it_has_changed_and_a_bad_change_leaves_it(tmp_path):
    file = put(tmp_path, "m", number=1)

    async def test():
        async with opened(tmp_path, load=("m",)) as (engine, catalogue):
            (first,) = catalogue.loaded()
            await catalogue.load("m", {})
            assert list(catalogue.loaded()) == [first]
            file.write_bytes(b"half a mod")
            with pytest.raises(InvalidRequest, match="load failed for model 'm': version 1 is at"):
                await catalogue.load("m", {})
            assert await ask(engine) == 1
            assert states(engine) == [("m", "1", "READY")]
            put(tmp_path, "m", number=2)
            await catalogue.load("m", {})
            assert await ask(engine) == 2

    asyncio.run(test())


def test_a_greater_version_takes_over(tmp_path):
    put(tmp_path, "m", 1, number=1)

    async def test():
        async with opened(tmp_path, load=("m",)) as (engine, catalogue):
            put(tmp_path, "m", 2, number=2)
            await catalogue.load("m", {})
            assert await ask(engine) == 2
            await settled(catalogue)
            assert states(engine) == [("m", "1", "UNAVAILABLE"), ("m", "2", "READY")]
            assert engine.is_ready()

    asyncio.run(test())


def test_a_configuration_and_files_may_come_along(tmp_path):
    put(tmp_path, "m", number=1)
    config = '{"backend": "onnxruntime", "max_batch_size": 2}'

    async def test():
        async with opened(tmp_path, load=("m",)) as (engine, catalogue):
            await catalogue.load("m", {"config": config})
            assert await ask(engine) == 1
            assert engine.model("m").config["max_batch_size"] == 2
            sent = {"config": config, "file:7/model.onnx": bytes_of(70, tmp_path)}
            await catalogue.load("m", sent)
            await settled(catalogue)
            assert await ask(engine) == 70
            assert states(engine)[-1] == ("m", "7", "READY")
            (scratch,) = [s.scratch.name for s in catalogue._serving["m"].values()]
            await catalogue.load("new", sent)
            assert await ask(engine, "new") == 70
            await catalogue.unload("new")
            await catalogue.load("m", {})
            await settled(catalogue)
            assert await ask(engine) == 1
            assert not module.Path(scratch).exists()

    asyncio.run(test())


def children():
    """Processes of this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # others end while we look
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.append(stat.parent.name)
    return found


def test_a_model_with_processes_of_its_own_takes_them_along(tmp_path):
    apart = "max_batch_size: 4 parameters { key: 'xirang.process' value { string_value: 'yes' } }"
    put(tmp_path, "m", number=1, config=apart)
    before = children()

    async def test():
        async with opened(tmp_path, load=("m",)) as (engine, catalogue):
            assert await ask(engine) == 1
            first = set(children()) - set(before)
            assert first
            put(tmp_path, "m", number=2)
            await catalogue.load("m", {})
            await settled(catalogue)
            assert await ask(engine) == 2
            assert not first & set(children())
            await catalogue.unload("m")
            await settled(catalogue)
            assert set(children()) <= set(before)

    asyncio.run(test())


def test_a_model_of_the_command_line_is_no_clients_to_unload(tmp_path):
    put(tmp_path, "m")

    async def test():
        async with opened(tmp_path, load=("m",)) as (engine, catalogue):
            (model,) = [loaded.model for loaded in catalogue.loaded()]
            model.name = "fixed"
            engine.add(model)
            with pytest.raises(InvalidRequest, match="is in no model repository"):
                await catalogue.unload("fixed")

    asyncio.run(test())


# ---------------------------------------------------------------------- poll


def test_changes_are_taken_up_when_two_looks_agree(tmp_path):
    file = put(tmp_path, "m", number=1)

    async def test():
        async with opened(tmp_path, mode="poll") as (engine, catalogue):
            assert await ask(engine) == 1
            whole = bytes_of(2, tmp_path.parent)
            file.write_bytes(whole[:40])
            await catalogue.poll()  # seen for the first time
            file.write_bytes(whole)
            await catalogue.poll()  # has changed again
            assert await ask(engine) == 1
            await catalogue.poll()
            assert await ask(engine) == 2
            (loaded,) = catalogue.loaded()
            await catalogue.poll()
            assert list(catalogue.loaded()) == [loaded]

    asyncio.run(test())


def test_new_models_come_and_deleted_ones_go(tmp_path):
    put(tmp_path, "m", number=1)

    async def test():
        async with opened(tmp_path, mode="poll") as (engine, catalogue):
            put(tmp_path, "new", number=3)
            put(tmp_path, "m", 2, number=2)
            await catalogue.poll()
            await catalogue.poll()
            assert (await ask(engine, "new"), await ask(engine)) == (3, 2)
            (tmp_path / "new").rename(tmp_path / ".gone")
            await catalogue.poll()
            await settled(catalogue)
            with pytest.raises(UnknownModel):
                await ask(engine, "new")
            assert [name for name, _, _ in states(engine)] == ["m", "m"]

    asyncio.run(test())


def test_a_model_that_was_mended_is_served_and_one_that_was_not_is_tried_once(tmp_path):
    put(tmp_path, "m", number=1, config="foo: 1")

    async def test():
        async with opened(tmp_path, mode="poll") as (engine, catalogue):
            assert not engine.is_ready()
            await catalogue.poll()
            await catalogue.poll()
            assert states(engine) == [("m", None, "UNAVAILABLE")]
            (tmp_path / "m" / "config.pbtxt").write_text("max_batch_size: 2")
            await catalogue.poll()
            await catalogue.poll()
            assert await ask(engine) == 1
            assert engine.is_ready()

    asyncio.run(test())


def test_files_that_change_while_they_are_loaded_are_not_served(tmp_path, monkeypatch):
    file = put(tmp_path, "m", number=1)
    real, changes = module.load_version, [1]

    def loading(*arguments, **options):
        loaded = real(*arguments, **options)
        if changes:
            changes.pop()
            set_back(file)
        return loaded

    monkeypatch.setattr(module, "load_version", loading)

    async def test():
        async with opened(tmp_path, mode="poll") as (engine, catalogue):
            assert reason(engine, "m") == CHANGED
            await catalogue.poll()
            await catalogue.poll()
            assert await ask(engine) == 1

    asyncio.run(test())


def test_a_repository_that_cannot_be_read_for_a_while_changes_nothing(tmp_path):
    root = tmp_path / "repository"
    put(root, "m", number=1)

    async def test():
        async with opened(root, mode="poll") as (engine, catalogue):
            root.rename(tmp_path / "away")
            await catalogue.poll()
            assert await ask(engine) == 1
            assert states(engine) == [("m", "1", "READY")]

    asyncio.run(test())


def test_a_model_that_goes_for_its_memory_can_be_loaded_again(tmp_path):
    put(tmp_path, "m", 1, number=1)

    async def test():
        async with opened(tmp_path) as (engine, catalogue):
            await catalogue.load("m", {})
            lanes = engine.roster.find("m").lanes
            engine._observe([EvictionProposed(lanes, "other", 0)])
            with pytest.raises(UnknownModel):
                await ask(engine)
            await settled(catalogue)
            assert reason(engine, "m") == "unloaded"
            await catalogue.load("m", {})
            assert await ask(engine) == 1

    asyncio.run(test())
