"""Clients that go away: who waits is taken out, who runs runs on, and nobody else notices."""

import pytest
from tests.support.wire import Wire, metric, post, until, words

pytestmark = pytest.mark.e2e

INFER = "/v2/models/hold/infer"


def cancelled(house):
    return metric(house.url, "xirang_cancelled_total", "hold")


def test_waiting_requests_of_vanished_clients_are_never_executed(house, hold, tmp_path):
    before = cancelled(house)
    note = tmp_path / "executed.txt"
    with Wire(house.url) as holder, Wire(house.url) as patient:
        holder.send("POST", INFER, words(hold.text))
        hold.until_running()
        vanishing = [Wire(house.url) for _ in range(5)]
        for number, wire in enumerate(vanishing):
            wire.send("POST", INFER, words(f"note {note} vanished-{number}"))
        patient.send("POST", INFER, words(f"note {note} patient"))
        until(lambda: metric(house.url, "xirang_waiting", "hold") == 6, "six to wait")
        for wire in vanishing:
            wire.connection.close()
        until(lambda: cancelled(house) == before + 5, "five to be cancelled")
        assert metric(house.url, "xirang_waiting", "hold") == 1
        hold.release()
        assert holder.receive()[0] == 200
        assert patient.receive()[0] == 200
    assert note.read_text() == "patient\n"


def test_a_client_that_vanishes_while_its_request_runs_harms_nobody(house, hold):
    wire = Wire(house.url)
    wire.send("POST", INFER, words(hold.text))
    hold.until_running()
    wire.connection.close()
    hold.release()
    status, _, answer = post(house.url, INFER, words("next"))
    assert (status, answer["outputs"][0]["data"]) == (200, ["next"])


def test_a_large_request_of_a_vanished_client_is_taken_out_whole(house, hold):
    """300 rows wait as three parts."""
    before = cancelled(house)
    with Wire(house.url) as holder:
        holder.send("POST", INFER, words(hold.text))
        hold.until_running()
        wire = Wire(house.url)
        wire.send("POST", INFER, words(*["row"] * 300))
        until(lambda: metric(house.url, "xirang_waiting", "hold") == 3, "three parts to wait")
        wire.connection.close()
        until(lambda: cancelled(house) == before + 3, "three parts to be cancelled")
        hold.release()
        assert holder.receive()[0] == 200
