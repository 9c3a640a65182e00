"""Rates over windows against those of Kafka 4.3.1's classes, recorded with a clock set by hand."""

import pytest

from network.sampled_rate import (
    THROTTLE_MS_MAX,
    QuotaWindow,
    SampledRate,
    SampledSum,
    SimpleRate,
)

RECORDED = {
    (SampledRate, QuotaWindow(11, 1), 1_000): (
        (0, 5000, 0, 500.0),
        (200, 4000, 0, 882.3529411764706),
        (300, 3000, 1500, 1142.857142857143),
        (600, 100, 2000, 1198.019801980198),
        (900, 0, 2100, 1210.0),
        (10000, 1, 0, 9.266055045871559),
        (500, 6000, 0, 535.1754385964912),
        (10999, 0, 0, 521.8714670840942),
        (1, 0, 0, 0.0),
        (11000, 0, 0, 0.0),
        (11000, 12000, 2000, 1200.0),
        (0, -12000, 0, 0.0),
        (30000, 1, 0, 0.1),
        (3, 1000000, 989998, 99970.1089673098),
    ),
    (SampledRate, QuotaWindow(3, 2), 500): (
        (0, 999, 0, 249.75),
        (1999, 999, 0, 333.05550925154193),
        (1, 999, 1994, 749.25),
        (2000, 1500, 4994, 1124.25),
        (2000, 700, 4394, 866.1666666666666),
        (5999, 1, 0, 116.85280880146692),
        (1, 4000, 4001, 999.9999999999999),
        (6000, 0, 0, 0.0),
    ),
    (SimpleRate, QuotaWindow(11, 1), 1_000): (
        (0, 500, 0, 500.0),
        (1, 400, 0, 900.0),
        (99, 300, 200, 1200.0),
        (900, 1000, 1200, 2200.0),
        (500, 5000, 5700, 4800.0),
        (12000, 0, 0, 0.0),
        (100, 900, 0, 900.0),
        (999, 3000, 2801, 3548.680618744313),
    ),
}
"""By kind of rate, windows and bound: ms since the row before, value, throttle time, rate."""


@pytest.mark.parametrize(("kind", "window", "bound"), RECORDED)
def test_rates_and_throttle_times_are_kafkas(kind, window, bound):
    rate, now_ms = kind(window), 10_000
    for pause_ms, value, throttle_ms, per_second in RECORDED[kind, window, bound]:
        now_ms += pause_ms
        rate.record(value, now_ms)
        assert rate.throttle_ms(bound, now_ms) == throttle_ms, now_ms
        assert rate.per_second(now_ms) == pytest.approx(per_second, rel=1e-12), now_ms


def test_a_rate_without_values_is_0_of_at_least_a_millisecond():
    rate = SampledRate(QuotaWindow(1, 1))
    assert (rate.per_second(5), rate.elapsed_ms(5), rate.throttle_ms(1, 5)) == (0, 1, 0)
    rate.record(2, 5)
    assert rate.per_second(5) == 2_000


def test_the_throttle_time_of_a_bound_of_0_or_beyond_the_field_is_the_largest():
    rate = SampledRate(QuotaWindow())
    rate.record(1e12, 0)
    assert rate.throttle_ms(0, 0) == THROTTLE_MS_MAX == 2**31 - 1
    assert rate.throttle_ms(1, 0) == THROTTLE_MS_MAX


def test_the_mean_is_of_the_values_of_the_last_windows():
    values = SampledSum(QuotaWindow(2, 30))
    assert values.mean(0) is None
    values.record(10, 0)
    values.record(20, 10_000)
    assert values.mean(10_000) == 15
    values.record(90, 30_000)
    assert values.mean(69_999) == 40
    assert values.mean(70_000) == 90, "the first window ended at 10,000"
    assert values.mean(90_000) is None
