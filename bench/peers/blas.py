"""Tells which BLAS PyTorch multiplies by. Debian's runs on any libblas.so.3, and on the reference BLAS if nothing else is there."""
import os, re

NAMES = {"openblas": "OpenBLAS", "blis": "BLIS", "mkl": "MKL", "atlas": "ATLAS"}
REFUSED = """PyTorch runs on %s, which is about ten times slower than others: rates beside it tell nothing. Install
another, such as libopenblas0-pthread of Debian, or name a python3 whose PyTorch has its own: PYTHON=python3.12 sh bench/peers/run"""


def blas_of(mapped, config):
    """Names the BLAS, by the libraries in the process and what torch.__config__.show() says, and tells if it is the reference.

    >>> debian = "/usr/lib/x86_64-linux-gnu/"
    >>> blas_of([debian + "libtorch_cpu.so.1.13", debian + "blas/libblas.so.3.11.0"], "BLAS_INFO=generic, ")
    ('the reference BLAS (/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0)', True)
    >>> blas_of([debian + "openblas-pthread/libblas.so.3", debian + "openblas-pthread/libopenblasp-r0.3.21.so"], "BLAS_INFO=generic, ")
    ('OpenBLAS (/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3)', False)

    NumPy may bring an OpenBLAS that PyTorch does not use:
    >>> blas_of(["/py/numpy.libs/libopenblas64_p-r0.3.23.so", "/usr/lib64/libblas.so.3"], "BLAS_INFO=generic, ")
    ('the reference BLAS (/usr/lib64/libblas.so.3)', True)
    >>> blas_of(["/py/numpy.libs/libopenblas64_p-r0.3.23.so", "/py/torch/lib/libtorch_cpu.so"], "BLAS_INFO=mkl, BUILD_TYPE=Release")
    ('MKL', False)
    >>> blas_of(["/py/torch.libs/libopenblasp-r0.3.25.so"], "BLAS_INFO=open, BUILD_TYPE=Release")
    ('OpenBLAS', False)
    >>> blas_of([], "")
    ('a BLAS that is not known', False)
    """
    for path in mapped:
        if os.path.basename(path).startswith("libblas.so"):
            name = next((NAMES[key] for key in NAMES if key in path), None)
            return ("%s (%s)" % (name or "the reference BLAS", path), name is None)
    built = re.search(r"BLAS_INFO=(\w+)", config)
    name = built.group(1).lower() if built else ""
    return (NAMES.get("openblas" if name == "open" else name, "a BLAS that is not known"), False)


def blas():
    """Names that of this process, in which PyTorch is imported."""
    import torch
    mapped = []
    if os.path.exists("/proc/self/maps"):
        with open("/proc/self/maps") as file:
            mapped = sorted({line.split()[-1] for line in file if line.rstrip().find("/") >= 0})
    return blas_of(mapped, torch.__config__.show())
