"""Messages about unknown names."""

from nevis_stream.errors import unknown


def test_a_short_list_of_valid_choices_is_whole_and_a_long_one_names_the_closest():
    assert unknown("metric", "error", ["error_rate", "map"]).endswith("Valid: error_rate, map.")
    samples = [f"sample-{number}" for number in range(60_000)]
    message = unknown("sample", "sample-12x", samples)
    assert "Did you mean 'sample-12" in message and message.endswith(", … 59,990 more.")
    assert len(message) < 300
    assert "a0, a1, " in unknown("sample", "zzz", [f"a{number}" for number in range(200)])
