#!/usr/bin/env python3
"""Checks files by the published rules of the safetensors format, and writes files for fold.h to read. Plain Python, no packages.

    python3 tests/check_safetensors.py check FILE...     each must keep all rules; prints its tensors' names, types, shapes, sums
    python3 tests/check_safetensors.py write FOLDER      python_*.safetensors, which tests/test_files.c reads

With the `safetensors` package installed, its own reader must agree too; without it, that is said.

The rules (github.com/huggingface/safetensors, Format): 8 bytes, little-endian, are the length of the header, at most 100 MB; the
header is JSON, UTF-8, begins with {, may be padded with spaces; no key twice; __metadata__ maps text to text; a tensor has dtype,
shape and data_offsets [begin, end) after the header, in as many bytes as type and shape need; tensors fill the rest of the file
without holes or overlap; row-major, little-endian.
"""
import json
import math
import os
import struct
import sys

BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "U64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16,
        "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8}


def no_twice(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), "a key twice"
    return dict(pairs)


def check(path):
    """Header, data; an AssertionError says which rule is broken."""
    data = open(path, "rb").read()
    assert len(data) >= 8, "no header length"
    length = struct.unpack("<Q", data[:8])[0]
    assert length <= 100_000_000, "header over 100 MB"
    assert 8 + length <= len(data), "header beyond the end"
    raw = data[8:8 + length]
    assert raw[:1] == b"{", "header does not begin with {"
    text = raw.decode("utf-8")
    assert text.rstrip(" ").endswith("}"), "padded with other than spaces"
    header = json.loads(text, object_pairs_hook=no_twice)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values()), "metadata that are not text"
    buffer = data[8 + length:]
    at = 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(t) == {"dtype", "shape", "data_offsets"}, f"{name}: members"
        assert all(type(n) is int and n >= 0 for n in t["shape"] + t["data_offsets"]), f"{name}: numbers"
        begin, end = t["data_offsets"]
        assert begin == at, f"{name}: a hole or overlap at {at}"
        assert (end - begin) * 8 == math.prod(t["shape"]) * BITS[t["dtype"]], f"{name}: size"
        at = end
    assert at == len(buffer), "bytes after the last tensor"
    return metadata, header, buffer, length


def check_bytes(name, shape, values, scale):
    """Bytes are from -127 to 127, the largest of each scale is 127, and scales have a shape that numpy multiplies them by."""
    assert min(values) > -128, f"{name}: -128"
    columns = shape[-1]
    lines = [values[at:at + columns] for at in range(0, len(values), columns)]
    by_rows = scale["shape"] == [len(lines)] + [1] * (len(shape) - 1)
    assert scale["dtype"] == "F32" and (by_rows or scale["shape"] == [columns]), f"{name}: scales"
    for each in lines if by_rows else zip(*lines):
        assert max(abs(v) for v in each) in (0, 127), f"{name}: a scale that is too large"


def check_ours(path):
    metadata, header, buffer, length = check(path)
    assert length % 8 == 0, "data are not 8-aligned"
    for name, t in header.items():
        assert t["dtype"] in ("F32", "I8"), "fold.h writes F32 and I8"
        kind = "f" if t["dtype"] == "F32" else "b"
        values = struct.unpack(f"<{math.prod(t['shape'])}{kind}", buffer[slice(*t["data_offsets"])])
        assert all(math.isfinite(v) for v in values)
        if kind == "b":
            check_bytes(name, t["shape"], values, header[name + ".scale"])
        print(path, ascii(name), t["dtype"], t["shape"], f"sum {sum(values):.6f}")
    try:
        from safetensors import deserialize
    except ImportError:
        return
    theirs = dict(deserialize(open(path, "rb").read()))
    assert set(theirs) == set(header), "the safetensors package sees other tensors"
    for name, t in header.items():
        assert list(theirs[name]["shape"]) == t["shape"] and bytes(theirs[name]["data"]) == buffer[slice(*t["data_offsets"])]


def write(path, tensors, metadata=None, reverse=False, ascii_only=True, pad=0, spaced=False):
    """tensors: name, type, shape, bytes; in the order of their data. reverse: the header lists them the other way round."""
    entries, at = [], 0
    for name, dtype, shape, data in tensors:
        entries.append((name, {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}))
        at += len(data)
    if reverse:
        entries.reverse()
    if metadata is not None:
        entries.insert(len(entries) // 2, ("__metadata__", metadata))
    raw = json.dumps(dict(entries), ensure_ascii=ascii_only, indent=1 if spaced else None).encode() + b" " * pad
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(raw)) + raw + b"".join(t[3] for t in tensors))
    check(path)


def write_all(folder):
    """Each has W [2 x 3] = 0, 0.5 .. 2.5 and a bias [1] = -1 whose name is a u umlaut and a tree; then bytes with scales."""
    W, b = [0.5 * i for i in range(6)], [-1.0]
    bias = "\u00fc\U0001f333"
    bf16 = lambda values: b"".join(struct.pack("<f", v)[2:] for v in values)
    packed = {"F32": lambda v: struct.pack(f"<{len(v)}f", *v), "F64": lambda v: struct.pack(f"<{len(v)}d", *v),
              "F16": lambda v: struct.pack(f"<{len(v)}e", *v), "BF16": bf16}
    for i, (dtype, pack) in enumerate(packed.items()):
        tensors = [("W", dtype, [2, 3], pack(W)), (bias, dtype, [1] if i % 2 else [], pack(b)), ("none", dtype, [0, 4], b"")]
        if i % 2:
            tensors.reverse()
        write(os.path.join(folder, f"python_{dtype}.safetensors"), tensors, metadata={"config": f"{dtype} \u20ac", "x": "\n\"\\"},
              reverse=i > 1, ascii_only=i < 2, pad=i * 3, spaced=i == 2)
    scales = packed["F32"]
    write(os.path.join(folder, "python_I8.safetensors"), [("W", "I8", [2, 3], struct.pack("<6b", 0, 1, 127, 3, -127, 5)),
          ("W.scale", "F32", [3], scales([2, 0.5, 0.25])), ("T", "I8", [2, 3], struct.pack("<6b", 0, 1, 127, 3, -127, 5)),
          ("T.scale", "F32", [2, 1], scales([2, 0.5]))])


def main():
    if sys.argv[1:2] == ["write"] and len(sys.argv) == 3:
        write_all(sys.argv[2])
    elif sys.argv[1:2] == ["check"] and len(sys.argv) > 2:
        for path in sys.argv[2:]:
            check_ours(path)
        try:
            import safetensors
            print("the safetensors package agrees:", safetensors.__version__)
        except ImportError:
            print("SKIPPED: reading with the safetensors package (not installed)")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
