"""Tells which BLAS PyTorch multiplies by. Debian's runs on any libblas.so.3, and on the reference BLAS if nothing else is there."""
import ctypes, os, re, sys

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


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return file.read().splitlines()


def better_core(core, flags):
    """OpenBLAS takes kernels without AVX on a processor that is newer than itself. Names those to take instead, or "".

    >>> better_core("Prescott", "fma avx avx2 avx512f avx512dq avx512bw avx512vl")
    'SkylakeX'
    >>> better_core("Prescott", "fma avx avx2")
    'Haswell'
    >>> better_core("Prescott", "sse3"), better_core("Zen", "fma avx avx2"), better_core("", "avx2")
    ('', '', '')
    """
    if core not in ("Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Generic") or " avx2" not in " " + flags:
        return ""
    return "SkylakeX" if all(" avx512" + part in flags for part in ("f", "bw", "dq", "vl")) else "Haswell"


def blas():
    """Names that of this process, in which PyTorch is imported. Begins the program anew where OpenBLAS does not know the processor."""
    import torch
    mapped = sorted({line.split()[-1] for line in lines_of("/proc/self/maps") if "/" in line})
    name, is_reference = blas_of(mapped, torch.__config__.show())
    for path in mapped:
        if name.startswith("OpenBLAS") and re.match(r"lib(openblas|blas\.so)", os.path.basename(path)):
            get = getattr(ctypes.CDLL(path), "openblas_get_corename", None)
            if not get:
                continue
            get.restype = ctypes.c_char_p
            core = get().decode()
            better = better_core(core, next((line for line in lines_of("/proc/cpuinfo") if line.startswith("flags")), ""))
            if better and os.environ.get("OPENBLAS_CORETYPE") != better:
                os.environ["OPENBLAS_CORETYPE"] = better
                sys.stdout.flush()
                os.execv(sys.executable, [sys.executable, *sys.argv])
            return name + ", with its kernels for " + core, is_reference
    return name, is_reference
