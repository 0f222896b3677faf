"""Metrics pages are read generally; the figures of an interval are differences of two pages."""

import pytest

from xirang.lab.load.scrape import MetricsPage, ServerFigures, compare

PAGE = r"""
# HELP xirang_batch_rows Rows in a run.
# TYPE xirang_batch_rows histogram
xirang_batch_rows_bucket{model="a",le="1"} 2
xirang_batch_rows_bucket{model="a",le="8"} 6 # {trace_id="{x}"} 5.0 1.0
xirang_batch_rows_bucket{model="a",le="+Inf"} 7
xirang_batch_rows_sum{model="a"} 40
xirang_batch_rows_count{model="a"} 7
xirang_batch_rows_sum{model="b"} 100
xirang_elements_total{model="a"} 1e3
xirang_padding_elements_total{model="a"} 100 1700000000000
xirang_run_seconds_sum{model="a"} 0.5
odd{text="a \"quoted\", \\ and, = } \n end"} NaN
plain 3
this is not a sample
broken{ 5
worse{a="b"} many
"""


def test_every_sample_is_read_and_other_lines_are_skipped():
    page = MetricsPage.parse(PAGE)
    assert len(page.samples) == 11
    assert page.total("plain") == 3
    odd = next(sample for sample in page.samples if sample.name == "odd")
    assert odd.labels == {"text": 'a "quoted", \\ and, = } \n end'}


def test_totals_sum_over_labels_unless_a_model_is_named():
    page = MetricsPage.parse(PAGE)
    assert page.total("xirang_batch_rows_sum") == 140
    assert page.total("xirang_batch_rows_sum", "a") == 40
    assert page.total("plain", "a") == 3
    assert page.total("absent") is None


def test_figures_are_of_the_interval_only():
    before = MetricsPage.parse(
        'xirang_batch_rows_sum{model="a"} 10\nxirang_batch_rows_count{model="a"} 2\n'
        'xirang_batch_rows_bucket{model="a",le="1"} 1\n'
        'xirang_batch_rows_bucket{model="a",le="8"} 2\n'
        'xirang_batch_rows_bucket{model="a",le="+Inf"} 2\n'
        'xirang_run_seconds_sum{model="a"} 0.2\n'
    )
    figures = compare(before, MetricsPage.parse(PAGE), answered=30, model="a")
    assert figures is not None
    assert figures.mean_batch == pytest.approx(6.0)
    assert figures.padding_waste == pytest.approx(0.1)
    assert figures.device_ms == pytest.approx(10.0)
    assert figures.batch_sizes == (("≤ 1", 1.0), ("≤ 8", 3.0), ("more", 1.0))


def test_a_server_without_these_series_has_no_figures():
    page = MetricsPage.parse("plain 3\n")
    assert compare(page, page, answered=1) is None
    only_batches = MetricsPage.parse("xirang_batch_rows_sum 8\nxirang_batch_rows_count 2\n")
    assert compare(MetricsPage(), only_batches, answered=0) == ServerFigures(mean_batch=4.0)
