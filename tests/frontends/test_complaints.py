"""Each complaint in the page on quality of service has a test, and it exists."""

import re

from tests.test_tidy import ROOT


def test_every_complaint_has_its_test():
    text = (ROOT / "docs" / "quality-of-service.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert len(named) > 20
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.M)
    ]
    assert not missing
