"""What clients may know about a model."""

import orjson
from tests.support.puppets import PuppetHouse


def info(**changes):
    house = PuppetHouse.with_masked_double(**changes)
    return house.engine.model("m")


def test_metadata_is_the_signatures():
    model = info()
    assert (model.name, model.version, model.platform, model.is_ready) == ("m", "1", "puppet", True)
    assert [(s.name, s.datatype, s.shape) for s in model.inputs] == [
        ("ids", "INT64", (-1, -1)),
        ("attention_mask", "INT64", (-1, -1)),
    ]
    assert [(s.name, s.datatype, s.shape) for s in model.outputs] == [
        ("doubled", "INT64", (-1, -1)),
        ("total", "INT64", (-1, 1)),
    ]


def test_the_configuration_has_tritons_keys_and_our_own_part():
    config = info(instances=2, efficiency=0.25).config
    assert config["max_batch_size"] == 8
    assert config["input"][0] == {"name": "ids", "data_type": "TYPE_INT64", "dims": [-1]}
    assert config["output"][1] == {"name": "total", "data_type": "TYPE_INT64", "dims": [1]}
    assert config["instance_group"] == [{"name": "m", "kind": "KIND_CPU", "count": 2}]
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 5000}
    own = config["xirang"]
    assert (own["batching"], own["budget_ms"], own["efficiency"]) == ("optimal", 1000.0, 0.25)
    assert (own["can_pad"], own["verdict"]) == (True, "not probed")
    assert own["request_rows_max"] is None
    assert own["inputs"]["ids"] == {
        "batch_axis": 0,
        "lengths": [{"axis": 1, "length": 0, "stride": 1, "offset": 0, "factor": 1}],
        "pad_value": 0,
        "is_mask": False,
    }
    assert own["outputs"]["total"]["lengths"] == []
    assert len(own["cost_ns"]) == 4
    orjson.dumps(config)


def test_a_draining_house_is_not_ready():
    house = PuppetHouse.with_masked_double()
    house.engine.traffic.is_draining = True
    assert not house.engine.model("m").is_ready
    assert house.engine.model_names() == ["m"]
