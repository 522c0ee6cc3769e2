# safetensors_file: reads and writes safetensors files of floats, if Python's package safetensors is not installed
import json
import struct

import torch

def save_file(tensors, path):
    header, data = {}, b""
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            raw = tensor.detach().cpu().contiguous().numpy().astype("<f4").tobytes()
            where = [len(data), len(data) + len(raw)]
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": where}
            data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)

def load_file(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        first, end = tensor["data_offsets"]
        values = struct.unpack(f"<{(end - first) // 4}f", data[first:end])
        tensors[name] = torch.tensor(values).reshape(tensor["shape"])
    return tensors
