from edge_lightning.seeds import counter_seed, counter_uniform

SEED = 386746226064387049  # blake2b, first 8 bytes, without the lowest bit


def test_counters_do_not_run_into_each_other():
    assert counter_seed(1, 11) != counter_seed(11, 1)
    assert counter_seed(1, "1") == counter_seed("1", 1)  # what is written is what counts


def test_seeds_are_the_same_everywhere_and_fit_63_bits():
    assert counter_seed(0, 0, "train-000000", 0, "sample") == SEED
    assert all(0 <= counter_seed(i) < 2**63 for i in range(1000))


def test_uniform_draws_fill_their_interval():
    draws = [counter_uniform(i) for i in range(10_000)]
    assert 0 <= min(draws) < 1e-3
    assert 1 - 1e-3 < max(draws) < 1
    assert abs(sum(draws) / len(draws) - 0.5) < 0.015  # 5 standard errors
