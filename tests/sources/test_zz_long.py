from hypothesis import Phase
import json
from tests.sources.test_fast_and_exact import *
from tests.sources import test_fast_and_exact as m
del test_both_paths_decode_alike, test_a_batch_decodes_like_its_records
@settings(max_examples=6000, phases=[Phase.explicit,Phase.generate], deadline=None)
@given(st.lists(envelopes(), min_size=1, max_size=10) | st.lists(envelopes(), min_size=18, max_size=40))
def test_long(texts):
    batch = batch_of(texts)
    fast = comparable(DebeziumJsonDecoder().decode(batch, {SOURCE: TARGET}))
    exact = comparable(exactly(batch, TARGET))
    if fast!=exact: json.dump(texts,open('/tmp/exp/fail.json','w'))
    assert fast == exact
