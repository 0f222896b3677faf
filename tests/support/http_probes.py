"""The probes that a genuine Triton server was asked over HTTP: verb, path, body and headers."""

import gzip
import json
import struct
import zlib


def tensor(datatype, shape, data=None, name="INPUT0", **parameters):
    found = {"name": name, "datatype": datatype, "shape": shape}
    if data is not None:
        found["data"] = data
    if parameters:
        found["parameters"] = parameters
    return found


def infer(model, body=None, headers=None, version=""):
    return "POST", f"/v2/models/{model}{version}/infer", body, headers or {}


def one(*, leave_out=(), **fields):
    """A request of one tensor, with some of its fields otherwise."""
    element = tensor("FP32", [1, 2], [1, 2]) | fields
    return {"inputs": [{k: v for k, v in element.items() if k not in leave_out}]}


def binary(model, inputs, blobs, outputs=None, header=None, **parameters):
    document = {"inputs": inputs}
    if outputs is not None:
        document["outputs"] = [{"name": "OUTPUT0", "parameters": outputs}]
    if parameters:
        document["parameters"] = parameters
    head = json.dumps(document).encode()
    length = len(head) if header is None else header
    return infer(model, head + blobs, {"Inference-Header-Content-Length": str(length)})


def raw(model, body):
    return infer(model, body, {"Inference-Header-Content-Length": "0"})


def strings(*elements):
    return b"".join(struct.pack("<I", len(e)) + e for e in elements)


def of(model, *elements, **members):
    return infer(model, {"inputs": list(elements), **members})


def packed(form, *values):
    return struct.pack(f"<{len(values)}{form}", *values)


def get(path):
    return "GET", path, None, {}


def post(path, body=None):
    return "POST", path, body, {}


COUNT = list(range(16))
TWO = [tensor("FP32", [1, 16], COUNT), tensor("FP32", [1, 16], COUNT, "INPUT1")]
ONE_TWO = packed("f", 1, 2)
FP32 = [tensor("FP32", [1, 2], binary_data_size=8)]
AS_BINARY = {"binary_data": True}
ASKED = json.dumps(one()).encode()
ADDSUB = "/v2/models/addsub"

COLD = {
    "live": get("/v2/health/live"),
    "ready": get("/v2/health/ready"),
    "ready_post": post("/v2/health/ready"),
    "ready_head": ("HEAD", "/v2/health/ready", None, {}),
    "server": get("/v2"),
    "server_slash": get("/v2/"),
    "root": get("/"),
    "health": get("/health"),
    "nowhere": get("/v2/nowhere"),
    "meta": get(ADDSUB),
    "meta_post": post(ADDSUB),
    "meta_v3": get(f"{ADDSUB}/versions/3"),
    "meta_v1_notserved": get(f"{ADDSUB}/versions/1"),
    "meta_v9": get(f"{ADDSUB}/versions/9"),
    "meta_vx": get(f"{ADDSUB}/versions/x"),
    "meta_none": get("/v2/models/nope"),
    "meta_slash": get(f"{ADDSUB}/"),
    "meta_query": get(f"{ADDSUB}?x=1"),
    "meta_pct": get("/v2/models/add%73ub"),
    "mready": get(f"{ADDSUB}/ready"),
    "mready_v": get(f"{ADDSUB}/versions/3/ready"),
    "mready_none": get("/v2/models/nope/ready"),
    "mready_noload": get("/v2/models/noload/ready"),
    "config_none": get("/v2/models/nope/config"),
    "stats_none": get("/v2/models/nope/stats"),
    "stats_v9": get(f"{ADDSUB}/versions/9/stats"),
    "infer_get": get(f"{ADDSUB}/infer"),
    "models_list": get("/v2/models"),
    "trace": get("/v2/trace/setting"),
    "logging": get("/v2/logging"),
    "trace_m": get(f"{ADDSUB}/trace/setting"),
    "index_badjson": post("/v2/repository/index", b"{"),
    "index_badready": post("/v2/repository/index", {"ready": 1}),
    "index_get": get("/v2/repository/index"),
    "log_set": post("/v2/logging", {"log_verbose_level": 0}),
    "log_bad": post("/v2/logging", {"log_verbose_level": -1}),
    "log_badtype": post("/v2/logging", {"log_info": "x"}),
    "log_unknown": post("/v2/logging", {"foo": 1}),
    "trace_bad": post("/v2/trace/setting", {"trace_rate": "x"}),
    "trace_unknown": post("/v2/trace/setting", {"zzz": "1"}),
    "trace_lvl": post("/v2/trace/setting", {"trace_level": ["FOO"]}),
    "gz_meta": ("GET", ADDSUB, None, {"Accept-Encoding": "gzip"}),
    "gen_list": post("/v2/models/ident_fp32/generate", {"INPUT0": [1, 2, 3]}),
    "gen_ok": post("/v2/models/ident_bytes1/generate", {"INPUT0": "hello", "id": "7"}),
    "gen_stream": post("/v2/models/ident_bytes1/generate_stream", {"INPUT0": "hello"}),
    "gen_missing": post("/v2/models/ident_bytes1/generate", {"foo": "x"}),
    "gen_params": post(
        "/v2/models/params/generate", {"INPUT0": 1, "foo": "x", "parameters": {"bar": 2}}
    ),
    "gen_err": post("/v2/models/fails/generate", {"INPUT0": [1]}),
    "gen_get": get("/v2/models/ident_bytes1/generate"),
}

INFER = {
    "json_ok": of("addsub", *TWO, id="abc"),
    "json_ok_v3": infer("addsub", {"inputs": TWO}, version="/versions/3"),
    "json_v9": infer("addsub", {"inputs": TWO}, version="/versions/9"),
    "json_none": of("nope", *TWO),
    "json_nested": of("ident_fp32", tensor("FP32", [2, 2], [[1.5, 2], [3, 4]])),
    "json_nested_wrong": of("ident_fp32", tensor("FP32", [2, 2], [[1.5, 2, 3, 4]])),
    "json_out1": of("addsub", *TWO, outputs=[{"name": "OUTPUT1"}]),
    "json_out_unknown": of("addsub", *TWO, outputs=[{"name": "NOPE"}]),
    "json_out_empty": of("addsub", *TWO, outputs=[]),
    "json_out_dup": of("addsub", *TWO, outputs=[{"name": "OUTPUT0"}, {"name": "OUTPUT0"}]),
    "json_missing_input": of("addsub", TWO[0]),
    "json_extra_input": of("addsub", *TWO, tensor("FP32", [1, 1], [1], "X")),
    "json_unknown_input": of("addsub", TWO[0], tensor("FP32", [1, 16], COUNT, "X")),
    "json_dup_input": of("addsub", TWO[0], TWO[0]),
    "json_no_inputs": infer("addsub", {}),
    "json_inputs_obj": infer("addsub", {"inputs": {}}),
    "json_empty_inputs": of("addsub"),
    "json_empty_body": infer("addsub", b""),
    "json_garbage": infer("addsub", b"garbage"),
    "json_trunc": infer("addsub", b'{"inputs":['),
    "json_array": infer("addsub", b"[]"),
    "no_name": infer("ident_fp32", one(leave_out=["name"])),
    "no_dtype": infer("ident_fp32", one(leave_out=["datatype"])),
    "no_shape": infer("ident_fp32", one(leave_out=["shape"])),
    "no_data": infer("ident_fp32", one(leave_out=["data"])),
    "wrong_dtype": infer("ident_fp32", one(datatype="INT32")),
    "bad_dtype": infer("ident_fp32", one(datatype="FLOAT")),
    "batch_zero": infer("ident_fp32", one(shape=[0, 2], data=[])),
    "batch_9": infer("ident_fp32", one(shape=[9, 1], data=[1] * 9)),
    "shape_neg": infer("ident_fp32", one(shape=[1, -1])),
    "shape_str": infer("ident_fp32", one(shape=["1", 2])),
    "shape_float": infer("ident_fp32", one(shape=[1.0, 2])),
    "shape_more": infer("ident_fp32", one(shape=[1, 3])),
    "shape_less": infer("ident_fp32", one(shape=[1, 1])),
    "shape_rank": infer("ident_fp32", one(shape=[2])),
    "shape_rank3": infer("ident_fp32", one(shape=[1, 1, 2])),
    "shape_zero": infer("ident_fp32", one(shape=[1, 0], data=[])),
    "shape_huge": infer("ident_fp32", one(shape=[1, 9223372036854775807, 4])),
    "shape_empty": infer("ident_fp32", one(shape=[], data=[1])),
    "data_str": infer("ident_fp32", one(data=["a", "b"])),
    "data_int_for_fp": infer("ident_fp32", one(data=[1, 2])),
    "data_null": infer("ident_fp32", one(data=[None, 1])),
    "data_scalar": infer("ident_fp32", one(data=5)),
    "data_bool": infer("ident_fp32", one(data=[True, False])),
    "data_nan_text": infer(
        "ident_fp32",
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,2],"data":[NaN,Infinity]}]}',
    ),
    "data_big": infer("ident_fp32", one(data=[1e39, 1])),
    "id_int": infer("ident_fp32", one() | {"id": 5}),
    "id_empty": infer("ident_fp32", one() | {"id": ""}),
    "param_priority_str": infer("ident_fp32", one() | {"parameters": {"priority": "1"}}),
    "param_priority_neg": infer("ident_fp32", one() | {"parameters": {"priority": -1}}),
    "param_timeout_float": infer("ident_fp32", one() | {"parameters": {"timeout": 5.5}}),
    "param_null": infer("ident_fp32", one() | {"parameters": {"foo": None}}),
    "extra_field": infer("ident_fp32", one() | {"zzz": 1}),
    "model_name_field": infer("ident_fp32", one() | {"model_name": "other"}),
    "param_timeout_str": infer("ident_fp32", one() | {"parameters": {"timeout": "5"}}),
    "param_triton_": infer("ident_fp32", one() | {"parameters": {"triton_x": 1}}),
    "param_custom": infer(
        "ident_fp32", one() | {"parameters": {"foo": "bar", "n": 1, "f": 1.5, "b": True}}
    ),
    "param_obj": infer("ident_fp32", one() | {"parameters": {"foo": {"a": 1}}}),
    "param_seq": infer(
        "ident_fp32", one() | {"parameters": {"sequence_id": 5, "sequence_start": True}}
    ),
    "params_arr": infer("ident_fp32", one() | {"parameters": []}),
    "dup_key": infer(
        "ident_fp32",
        b'{"id":"a","id":"b","inputs":'
        b'[{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":[1]}]}',
    ),
    "fp16_json": of("ident_fp16", tensor("FP16", [1, 2], [1, 2])),
    "bf16_json": of("ident_fp16", tensor("BF16", [1, 2], [1, 2])),
    "bool_json": of("ident_bool", tensor("BOOL", [1, 2], [True, False])),
    "bool_int": of("ident_bool", tensor("BOOL", [1, 2], [1, 0])),
    "u8_over": of("ident_u8", tensor("UINT8", [1, 2], [300, 1])),
    "u8_float": of("ident_u8", tensor("UINT8", [1, 2], [1.5, 1])),
    "u8_neg": of("ident_u8", tensor("UINT8", [1, 2], [-1, 1])),
    "i64_big": of("ident_i64", tensor("INT64", [1, 1], [9007199254740993])),
    "bytes_json": of("ident_bytes", tensor("BYTES", [1, 2], ["héllo", ""])),
    "bytes_num": of("ident_bytes", tensor("BYTES", [1, 1], [5])),
    "bytes_few": of("ident_bytes", tensor("BYTES", [1, 3], ["a", "b"])),
    "bytes_many": of("ident_bytes", tensor("BYTES", [1, 1], ["a", "b"])),
    "nobatch": of("ident_nobatch", tensor("FP32", [2, 2], [1, 2, 3, 4])),
    "nobatch_bad": of("ident_nobatch", tensor("FP32", [2, 3], [1] * 6)),
    "model_error": of("fails", tensor("FP32", [1, 2], [1, 2])),
    "model_raise": of("booms", tensor("FP32", [1, 2], [1, 2])),
    "params_echo": infer(
        "params",
        {
            "parameters": {
                "foo": "bar",
                "n": 1,
                "f": 1.5,
                "b": True,
                "priority": 1,
                "timeout": 7,
            },
            "inputs": [tensor("FP32", [1, 1], [1])],
        },
    ),
    "class2": binary("ident_fp32", FP32, ONE_TWO, {"classification": 2}),
    "class9": binary("ident_fp32", FP32, ONE_TWO, {"classification": 9}),
    "class_bin": binary("ident_fp32", FP32, ONE_TWO, {"classification": 1} | AS_BINARY),
    "class0": binary("ident_fp32", FP32, ONE_TWO, {"classification": 0}),
    "class_neg": binary("ident_fp32", FP32, ONE_TWO, {"classification": -1}),
    "class_bytes": binary(
        "ident_bytes",
        [tensor("BYTES", [1, 1], binary_data_size=5)],
        strings(b"a"),
        {"classification": 1},
    ),
    "gz_in": infer("ident_fp32", gzip.compress(ASKED), {"Content-Encoding": "gzip"}),
    "deflate_in": infer("ident_fp32", zlib.compress(ASKED), {"Content-Encoding": "deflate"}),
    "gz_bad": infer("ident_fp32", b"notgzip", {"Content-Encoding": "gzip"}),
    "br_in": infer("ident_fp32", ASKED, {"Content-Encoding": "br"}),
    "gz_out": infer("ident_fp32", ASKED, {"Accept-Encoding": "gzip"}),
    "deflate_out": infer("ident_fp32", ASKED, {"Accept-Encoding": "deflate"}),
    "multi_out": infer("ident_fp32", ASKED, {"Accept-Encoding": "br, gzip;q=0.5, deflate;q=0.9"}),
    "star_out": infer("ident_fp32", ASKED, {"Accept-Encoding": "*"}),
    "gz_err_out": infer("nope", ASKED, {"Accept-Encoding": "gzip"}),
}

BINARY = {
    "bin_ok": binary("ident_fp32", FP32, ONE_TWO, AS_BINARY),
    "bin_bdo": binary("ident_fp32", FP32, ONE_TWO, binary_data_output=True),
    "bin_ok_jsonout": binary("ident_fp32", FP32, ONE_TWO),
    "bin_bdo_override": binary(
        "ident_fp32", FP32, ONE_TWO, {"binary_data": False}, binary_data_output=True
    ),
    "bin_bdo_out_noflag": binary("ident_fp32", FP32, ONE_TWO, {}, binary_data_output=True),
    "bin_short": binary("ident_fp32", FP32, ONE_TWO[:4]),
    "bin_ihl_short": binary("ident_fp32", FP32, ONE_TWO, header=10),
    "bin_missing_ihl": (*binary("ident_fp32", FP32, ONE_TWO)[:3], {}),
    "bin_long": binary("ident_fp32", FP32, ONE_TWO + b"zz"),
    "bin_size_mismatch": binary(
        "ident_fp32", [tensor("FP32", [1, 2], binary_data_size=4)], ONE_TWO[:4]
    ),
    "bin_ihl_big": binary("ident_fp32", FP32, ONE_TWO, header=99999),
    "bin_ihl_neg": binary("ident_fp32", FP32, ONE_TWO, header=-1),
    "bin_ihl_x": binary("ident_fp32", FP32, ONE_TWO, header="abc"),
    "bin_and_data": binary(
        "ident_fp32", [tensor("FP32", [1, 2], [1, 2], binary_data_size=8)], ONE_TWO
    ),
    "bin_size_str": binary("ident_fp32", [tensor("FP32", [1, 2], binary_data_size="8")], ONE_TWO),
    "bin_flag_str": binary("ident_fp32", FP32, ONE_TWO, {"binary_data": "yes"}),
    "bin_no_ihl": binary("ident_fp32", FP32, ONE_TWO),
    "bin_bytes_ok": binary(
        "ident_bytes",
        [tensor("BYTES", [1, 2], binary_data_size=12)],
        strings(b"ab", b"\x00\xff"),
        AS_BINARY,
    ),
    "bin_bytes_trunc_data": binary(
        "ident_bytes",
        [tensor("BYTES", [1, 1], binary_data_size=6)],
        struct.pack("<I", 10) + b"ab",
        AS_BINARY,
    ),
    "bin_bytes_trunc_len": binary(
        "ident_bytes",
        [tensor("BYTES", [1, 2], binary_data_size=8)],
        strings(b"ab") + b"\x01\x00",
        AS_BINARY,
    ),
    "bin_bytes_few": binary(
        "ident_bytes", [tensor("BYTES", [1, 2], binary_data_size=5)], strings(b"a"), AS_BINARY
    ),
    "bin_bytes_many": binary(
        "ident_bytes",
        [tensor("BYTES", [1, 2], binary_data_size=15)],
        strings(b"a", b"b", b"c"),
        AS_BINARY,
    ),
    "bytes_nonutf8_jsonout": binary(
        "ident_bytes", [tensor("BYTES", [1, 1], binary_data_size=6)], strings(b"\x00\xff")
    ),
    "fp16_bin": binary(
        "ident_fp16", [tensor("FP16", [1, 2], binary_data_size=4)], packed("e", 1, 2), AS_BINARY
    ),
    "fp16_bin_jsonout": binary(
        "ident_fp16", [tensor("FP16", [1, 2], binary_data_size=4)], packed("e", 1, 2)
    ),
    "raw_ok": raw("ident_fp32", ONE_TWO),
    "raw_odd": raw("ident_fp32", ONE_TWO + b"z"),
    "raw_2in": raw("addsub", ONE_TWO),
    "raw_2d": raw("ident_2d", ONE_TWO),
    "raw_bytes": raw("ident_bytes1", b"hello"),
    "raw_bytes_var": raw("ident_bytes", b"hello"),
    "raw_empty": raw("ident_fp32", b""),
    "nan_jsonout": binary(
        "ident_fp32",
        [tensor("FP32", [1, 3], binary_data_size=12)],
        packed("f", float("nan"), float("inf"), -0.0),
    ),
    "float_fmt": binary(
        "ident_fp32",
        [tensor("FP32", [1, 5], binary_data_size=20)],
        packed("f", 0.1, 1, 1e-7, 1e20, 123456.789),
    ),
}

MODELS = "/v2/repository/models"
UNLOADED = tensor("UINT8", [1, 1], [1])

CONTROL = {
    "unload": post(f"{MODELS}/ident_u8/unload"),
    "ready_after_unload": get("/v2/health/ready"),
    "infer_unloaded": of("ident_u8", UNLOADED),
    "mready_unloaded": get("/v2/models/ident_u8/ready"),
    "load": post(f"{MODELS}/ident_u8/load"),
    "unload_none": post(f"{MODELS}/nope/unload"),
    "load_none": post(f"{MODELS}/nope/load"),
    "load_repo": post("/v2/repository/foo/models/ident_u8/load"),
    "load_cfg_bad": post(f"{MODELS}/ident_u8/load", {"parameters": {"config": "{"}}),
    "load_param_bad": post(f"{MODELS}/ident_u8/load", {"parameters": {"zzz": "1"}}),
    "load_get": get(f"{MODELS}/ident_u8/load"),
}
"""In this order."""

KEY = "xr_probe"
"""An object of four numbers in shared memory: 1, 2, 0, 0."""

SYSTEM = "/v2/systemsharedmemory"
PLACED = tensor("FP32", [1, 2], shared_memory_region="p", shared_memory_byte_size=8)


def register(region, **body):
    return post(f"{SYSTEM}/region/{region}/register", body)


def delivered(**parameters):
    return infer("ident_fp32", one() | {"outputs": [{"name": "OUTPUT0", "parameters": parameters}]})


SHARED = {
    "shm_status": get(f"{SYSTEM}/status"),
    "shm_status_none": get(f"{SYSTEM}/region/x/status"),
    "shm_unreg_none": post(f"{SYSTEM}/region/x/unregister"),
    "shm_reg_nokey": register("x", offset=0, byte_size=8),
    "shm_reg_missing": register("x", key="/does_not_exist_q", offset=0, byte_size=8),
    "shm_reg_noname": post(f"{SYSTEM}/register", {"key": "/x", "offset": 0, "byte_size": 8}),
    "shm_infer_unreg": of(
        "ident_fp32",
        tensor("FP32", [1, 2], shared_memory_region="zz", shared_memory_byte_size=8),
    ),
    "cuda_status": get("/v2/cudasharedmemory/status"),
    "cuda_reg": post(
        "/v2/cudasharedmemory/region/x/register",
        {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 8},
    ),
    "shm_bad_verb": get(f"{SYSTEM}/unregister"),
    "shm_reg": register("p", key=f"/{KEY}", offset=0, byte_size=16),
    "shm_reg_again": register("p", key=f"/{KEY}", offset=0, byte_size=16),
    "shm_reg_toobig": register("q", key=f"/{KEY}", offset=0, byte_size=1600000),
    "shm_status_p": get(f"{SYSTEM}/region/p/status"),
    "shm_infer": of(
        "ident_fp32",
        PLACED,
        outputs=[
            {
                "name": "OUTPUT0",
                "parameters": {
                    "shared_memory_region": "p",
                    "shared_memory_offset": 8,
                    "shared_memory_byte_size": 8,
                },
            }
        ],
    ),
    "shm_infer_oob": of(
        "ident_fp32",
        tensor(
            "FP32",
            [1, 2],
            shared_memory_region="p",
            shared_memory_byte_size=8,
            shared_memory_offset=12,
        ),
    ),
    "shm_out_small": delivered(shared_memory_region="p", shared_memory_byte_size=4),
    "shm_out_class": delivered(
        shared_memory_region="p", shared_memory_byte_size=8, classification=1
    ),
    "shm_out_bin": delivered(shared_memory_region="p", shared_memory_byte_size=8, binary_data=True),
    "shm_unreg": post(f"{SYSTEM}/unregister"),
}
"""In this order, beginning with the object there."""
