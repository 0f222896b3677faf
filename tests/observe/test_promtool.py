"""What Prometheus' own tool says of our metrics and of our alert rules, where it is installed."""

import shutil
import subprocess

import pytest
from tests.support.asking import ask, finish_all
from tests.support.puppets import PuppetHouse
from tests.test_tidy import ROOT

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed; it comes with Debian's prometheus"
)


def promtool(*words, text=None):
    """Exit status and what it said."""
    done = subprocess.run(
        [PROMTOOL, *words], input=text, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_metrics_are_well_formed_and_named_by_the_rules():
    house = PuppetHouse.with_masked_double()
    ask(house, [1])
    finish_all(house)
    _, said = promtool("check", "metrics", text=house.engine.metrics_text())
    # Triton's counters have no _total, and times that are not in seconds: that cannot be helped.
    assert [line for line in said.splitlines() if not line.startswith("nv_")] == []


def test_a_fault_would_be_found():
    status, said = promtool("check", "metrics", text="xirang_waiting{ 3\n")
    assert status != 0
    assert "error" in said.lower()


def test_the_alert_rules_are_sound():
    status, said = promtool("check", "rules", str(ROOT / "deploy" / "prometheus-alerts.yml"))
    assert status == 0, said
    assert "SUCCESS" in said
