"""The bench's kernels alone in PyTorch: the products of a linear layer, and attention of padded lists."""
import math, time
import torch

GEMM_ROWS = (1, 2, 3, 4, 6, 12, 48, 240, 768)
GEMM_SHAPES = ((8, 64), (64, 64), (150, 5), (150, 450), (300, 600), (512, 1024), (784, 200), (200, 10000))
# As in bench/attention.h: name, lists, least and most rows of one, heads, width of a head, causal; decoding is one query a call.
ATTENTION_SHAPES = (("64 of 5..40, 4 x 32", 64, 5, 40, 4, 32, 0), ("64 of 5..40, 4 x 32, causal", 64, 5, 40, 4, 32, 1),
                    ("16 of 64..512, 8 x 64", 16, 64, 512, 8, 64, 0), ("16 of 64..512, 8 x 64, causal", 16, 64, 512, 8, 64, 1),
                    ("decoding 512, 8 x 64", 512, 1, 512, 8, 64, 0))


def seconds_of(call, least=4e-3):
    """Of one call: the median of blocks of about a millisecond."""
    start = time.process_time()
    call()
    calls, blocks = int(1e-3 / (time.process_time() - start + 1e-7)) + 1, []
    end = time.process_time() + least
    while len(blocks) < 3 or time.process_time() < end:
        start = time.process_time()
        for _ in range(calls):
            call()
        blocks.append((time.process_time() - start) / calls)
    return sorted(blocks)[len(blocks) // 2]


def gemm():
    """FLOP/s by (product, m, k, n)."""
    rates = {}
    for k, n in GEMM_SHAPES:
        w, dw = torch.randn(k, n), torch.zeros(k, n)
        for m in GEMM_ROWS:
            x, y, dx = torch.randn(m, k), torch.randn(m, n), torch.zeros(m, k)
            out = torch.empty(m, n)
            for product, call in (("Y=XW", lambda: torch.mm(x, w, out=out)), ("dX+=dYWT", lambda: dx.addmm_(y, w.t())),
                                  ("dW+=XTdY", lambda: dw.addmm_(x.t(), y))):
                rates[product, m, k, n] = 2 * m * k * n / seconds_of(call)
    return rates


def attention():
    """FLOP/s of pairs that see each other by (shape, product): 4 a pair and column forward, 10 backward."""
    rates = {}
    for name, lists, least, most, heads, width, causal in ATTENTION_SHAPES:
        lengths = [least + i * (most - least) // (lists - 1) for i in range(lists)]
        if name.startswith("decoding"):
            rates[name, "forward"] = 4 * sum(lengths) * heads * width / decoding_seconds(lengths, heads, width)
            continue
        q, k, v = (torch.randn(lists, heads, most, width, requires_grad=True) for _ in range(3))
        index = torch.arange(most)
        hidden = (index >= torch.tensor(lengths).view(-1, 1, 1, 1)) | ((index > index.view(-1, 1)) if causal else torch.tensor(False))
        hidden = torch.zeros(hidden.shape).masked_fill(hidden, -1e30)
        def forward():
            return torch.matmul(torch.softmax(torch.matmul(q / math.sqrt(width), k.transpose(2, 3)) + hidden, 3), v)
        y = forward()
        pairs = sum(n * (n + 1) / 2 if causal else n * n for n in lengths) * heads * width
        rates[name, "backward"] = 10 * pairs / seconds_of(lambda: torch.autograd.grad(y, (q, k, v), y.detach(), retain_graph=True))
        with torch.no_grad():
            rates[name, "forward"] = 4 * pairs / seconds_of(forward)
    return rates


def decoding_seconds(lengths, heads, width):
    key, value, query = torch.randn(heads, width, lengths[-1]), torch.randn(heads, lengths[-1], width), torch.randn(heads, 1, width)
    def steps():
        for n in lengths:
            torch.bmm(torch.softmax(torch.bmm(query, key[:, :, :n]), 2), value[:, :n])
    with torch.no_grad():
        return seconds_of(steps)
