"""Rows that make no sequence or tree: images, sentences that attend to themselves, molecules, agents and their neighbours."""
import math
import torch
import torch.nn.functional as F
from common import Net, gru_of, linear_of, weight


def loss_of(y, labels, train):
    return F.cross_entropy(y, labels, reduction="sum") if train else y


class Mnist(Net):
    unit, optimiser, hows, relu = "images", torch.optim.Adam, ("levels", "samples"), True

    def __init__(self, o):
        sizes = [o.input, o.hidden, 100, o.classes]
        self.o = o
        self.W = [weight(a, b) for a, b in zip(sizes, sizes[1:])]
        self.b = [weight(b) for b in sizes[1:]]

    def weights(self, t):
        return [pair for i in range(3) for pair in ((self.W[i], t["mlp.%d.W" % i]), (self.b[i], t["mlp.%d.b" % i]))]

    @staticmethod
    def batch(random, o):
        x = random.many(o.batch * o.input, 256).view(o.batch, o.input) / 256
        return list(zip(x, [random.below(o.classes) for _ in range(o.batch)]))

    def prepare(self, data):
        return [x for x, _ in data], torch.tensor([y for _, y in data])

    def levels(self, data, train):
        x = torch.stack(data[0])
        for i, (W, b) in enumerate(zip(self.W, self.b)):
            x = torch.addmm(b, x, W)
            x = torch.relu(x) if i < 2 else x
        return loss_of(x, data[1], train)

    def sample(self, data, train):
        return self.levels(([data[0]], torch.tensor([data[1]])), train)

    def units(self, data):
        return len(data)


class Transformer(Net):
    """Layers of torch.nn; a sentence is (its words, its label). padded: PyTorch's own encoder; nested: its layers of nested tensors
    (inference only); packed: the rows of real tokens side by side, padded for attention alone."""
    unit, optimiser, relu = "tokens", torch.optim.Adam, True
    hows = ("padded", "padded-by-length", "nested", "nested-by-length", "packed", "packed-by-length")

    def __init__(self, o):
        layer = torch.nn.TransformerEncoderLayer(o.hidden, 4, 4 * o.hidden, 0.0, batch_first=True, norm_first=True)
        self.o, self.words = o, torch.nn.Embedding(o.words, o.hidden, sparse=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()  # for the fast path
        self.head = torch.nn.Linear(o.hidden, o.classes)
        if o.how == "nested":
            self.trains = False

    def weights(self, t):
        pairs = [(self.words.weight, t["words"])] + linear_of(self.head, t, "classes")
        for i, layer in enumerate(self.encoder.layers):
            name, a = "block%d." % i, layer.self_attn
            parts = [name + "attention." + part for part in ("query", "key", "value")]
            pairs += [(a.in_proj_weight, torch.cat([t[p + ".W"].t() for p in parts])), (a.in_proj_bias, torch.cat([t[p + ".b"] for p in parts]))]
            pairs += linear_of(a.out_proj, t, name + "attention.joined")
            pairs += linear_of(layer.linear1, t, name + "inner") + linear_of(layer.linear2, t, name + "outer")
            for norm, which in ((layer.norm1, "attention_norm"), (layer.norm2, "dense_norm")):
                pairs += [(norm.weight, t[name + which + ".gain"]), (norm.bias, t[name + which + ".bias"])]
        return pairs

    @staticmethod
    def draw(random, o):
        n = o.min + random.below(o.max - o.min + 1)
        label = random.below(o.classes)
        return [random.below(o.words) for _ in range(n)], label

    def prepare(self, data):
        lengths = [len(words) for words, _ in data]
        longest = max(lengths)
        x = {"n": torch.tensor(lengths), "labels": torch.tensor([label for _, label in data]), "longest": longest}
        if self.o.how == "packed":
            x["words"] = torch.tensor([w for words, _ in data for w in words])
            x["sentence"] = torch.tensor([i for i, n in enumerate(lengths) for _ in range(n)])
            x["place"] = torch.tensor([i * longest + k for i, n in enumerate(lengths) for k in range(n)])
        else:
            x["words"] = torch.tensor([words + [0] * (longest - len(words)) for words, _ in data])
        x["mask"] = torch.tensor([[k >= n for k in range(longest)] for n in lengths])
        x["keep"] = x["mask"].logical_not().unsqueeze(2).float()
        x["hidden"] = torch.zeros(len(data), 1, 1, longest).masked_fill(x["mask"].view(len(data), 1, 1, -1), -math.inf)
        return x

    def padded(self, x):
        y = self.encoder(self.words(x["words"]), src_key_padding_mask=x["mask"] if bool(x["mask"].any()) else None)
        return (y * x["keep"]).sum(1)

    def nested(self, x):
        y = torch._nested_tensor_from_mask(self.words(x["words"]), x["mask"].logical_not())
        for layer in self.encoder.layers:
            y = layer(y)
        return y.to_padded_tensor(0.0).sum(1)

    def attention(self, layer, y, x):
        batch, longest, d, a = len(x["n"]), x["longest"], self.o.hidden, layer.self_attn
        y = F.linear(y, a.in_proj_weight, a.in_proj_bias)
        y = y.new_zeros(batch * longest, 3 * d).index_copy(0, x["place"], y)
        q, k, v = y.view(batch, longest, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        p = torch.softmax(torch.matmul(q / math.sqrt(d // 4), k.transpose(2, 3)) + x["hidden"], 3)
        y = torch.matmul(p, v).transpose(1, 2).reshape(batch * longest, d)
        return a.out_proj(y.index_select(0, x["place"]))

    def packed(self, x):
        y = self.words(x["words"])
        for layer in self.encoder.layers:
            y = y + self.attention(layer, layer.norm1(y), x)
            y = y + layer.linear2(torch.relu(layer.linear1(layer.norm2(y))))
        return y.new_zeros(len(x["n"]), self.o.hidden).index_add(0, x["sentence"], y)

    def levels(self, x, train):
        return loss_of(self.head(getattr(self, self.o.how)(x) / x["n"].unsqueeze(1)), x["labels"], train)

    def units(self, data):
        return sum(len(words) for words, _ in data)


class Graph(Net):
    """Rounds of sums over neighbours, all molecules of a batch as one; a molecule is (kinds, where edges come from, where they go, label)."""
    unit, optimiser, hows, relu = "atoms", torch.optim.Adam, ("levels", "build"), True

    def __init__(self, o):
        h = o.hidden
        self.o, self.kinds, self.head = o, torch.nn.Embedding(o.words, h), torch.nn.Linear(h, o.classes)
        self.inner = [torch.nn.Linear(h, h) for _ in range(4)]
        self.outer = [torch.nn.Linear(h, h) for _ in range(4)]

    def weights(self, t):
        pairs = [(self.kinds.weight, t["kinds"])] + linear_of(self.head, t, "classes")
        for i in range(4):
            pairs += linear_of(self.inner[i], t, "round%d.0" % i) + linear_of(self.outer[i], t, "round%d.1" % i)
        return pairs

    @staticmethod
    def draw(random, o):
        atoms = o.min + random.below(o.max - o.min + 1)
        label, bonds, ends = random.below(o.classes), atoms - 1 + atoms // 8, []
        for k in range(bonds):
            a = k + 1 if k < atoms - 1 else random.below(atoms)
            ends.append((a, random.below(k + 1 if k < atoms - 1 else atoms)))
        kinds = [random.below(o.words) for _ in range(atoms)]
        return kinds, [e for pair in ends for e in pair], [e for pair in ends for e in reversed(pair)], label

    def prepare(self, data):
        kinds, come, go, of = [], [], [], []
        for i, (kind, a, b, _) in enumerate(data):
            come += [len(kinds) + e for e in a]
            go += [len(kinds) + e for e in b]
            of += [i] * len(kind)
            kinds += kind
        return [torch.tensor(t) for t in (kinds, come, go, of, [x[3] for x in data])]

    def levels(self, x, train):
        kinds, come, go, of, labels = x
        h = self.kinds(kinds)
        for inner, outer in zip(self.inner, self.outer):
            around = h.index_add(0, go, h.index_select(0, come))
            h = outer(torch.relu(inner(around)))
        return loss_of(self.head(h.new_zeros(len(labels), self.o.hidden).index_add(0, of, h)), labels, train)

    def units(self, data):
        return sum(len(x[0]) for x in data)


class Attention(Net):
    """An agent and its neighbours, one vector each; a sample is (vectors, the agent's own first; label). padded: all neighbours are;
    packed: they are for the weighted sum alone."""
    unit, optimiser, hows, relu = "vectors", torch.optim.Adam, ("padded", "packed"), True

    def __init__(self, o):
        h, linear = o.hidden, torch.nn.Linear
        self.o, self.own, self.other, self.query = o, linear(o.input, h), linear(o.input, h), linear(h, h)
        self.both, self.head, self.classes = linear(h, 2 * h), linear(2 * h, h), linear(h, o.classes)

    def weights(self, t):
        names = {"self": self.own, "other": self.other, "query": self.query, "key_value": self.both, "head": self.head, "classes": self.classes}
        return [pair for name, layer in names.items() for pair in linear_of(layer, t, name)]

    @staticmethod
    def batch(random, o):
        counts = []
        for _ in range(o.batch):
            n = o.min - 1 + random.below(o.max - o.min + 1)
            counts.append((1 + n, random.below(o.classes)))
        values = random.values(sum(n for n, _ in counts) * o.input).view(-1, o.input)
        return [(x, label) for x, (_, label) in zip(values.split([n for n, _ in counts]), counts)]

    def prepare(self, data):
        counts = [len(v) - 1 for v, _ in data]
        longest = max(max(counts), 1)
        hidden = torch.tensor([[k >= n for k in range(longest)] for n in counts])
        x = {"own": torch.stack([v[0] for v, _ in data]), "labels": torch.tensor([label for _, label in data]), "longest": longest,
             "least": torch.zeros(hidden.shape).masked_fill(hidden, -1e30), "any": torch.tensor([[float(n > 0)] for n in counts])}
        if self.o.how == "padded":
            x["other"] = torch.stack([F.pad(v[1:], (0, 0, 0, longest - n)) for (v, _), n in zip(data, counts)])
        else:
            x["other"] = torch.cat([v[1:] for v, _ in data])
            x["place"] = torch.tensor([i * longest + k for i, n in enumerate(counts) for k in range(n)], dtype=torch.long)
        return x

    def levels(self, x, train):
        batch, h = len(x["labels"]), self.o.hidden
        own = torch.relu(self.own(x["own"]))
        both = self.both(torch.relu(self.other(x["other"])))
        if self.o.how == "packed":
            both = both.new_zeros(batch * x["longest"], 2 * h).index_copy(0, x["place"], both).view(batch, x["longest"], 2 * h)
        key, value = both.split(h, 2)
        score = torch.bmm(key, (self.query(own) / math.sqrt(h)).unsqueeze(2)).squeeze(2) + x["least"]
        around = torch.bmm(torch.softmax(score, 1).unsqueeze(1), value).squeeze(1) * x["any"]
        return loss_of(self.classes(torch.relu(self.head(torch.cat([own, around], 1)))), x["labels"], train)

    def units(self, data):
        return sum(len(v) for v, _ in data)


class Frame(Net):
    """Agents with a state, each of which attends to others; a sample is a frame: (who is seen, by whom, labels, what is observed,
    states). padded: neighbours are gathered to the most there are; edges: one row a pair, summed by index."""
    unit, optimiser, hows, heads = "agents", torch.optim.Adam, ("padded", "edges"), 2

    def __init__(self, o):
        h = o.hidden
        self.o, self.state, self.qkv, self.policy = o, torch.nn.GRUCell(o.input, h), torch.nn.Linear(h, 3 * h), torch.nn.Linear(2 * h, o.classes)

    def weights(self, t):
        return gru_of(self.state, t, "state") + linear_of(self.qkv, t, "qkv") + linear_of(self.policy, t, "policy")

    @staticmethod
    def batch(random, o):
        out, most, least = [], o.max - 1, o.min - 1
        for _ in range(o.batch):
            seen = []
            for _ in range(o.words):
                few = random.below(5) < 2
                seen.append(least + random.below(most - least + 1) if few else most - random.below((most - least) // 5 + 1))
            come = [random.below(o.words) for _ in range(sum(seen))]
            go = [k for k, n in enumerate(seen) for _ in range(n)]
            out.append((come, go, [random.below(o.classes) for _ in range(o.words)]))
        values = random.values(o.batch * o.words * (o.input + o.hidden)).view(o.batch, -1)
        return [x + v.split([o.words * o.input, o.words * o.hidden]) for x, v in zip(out, values)]

    def prepare(self, data):
        n, o = self.o.words, self.o
        x = {"come": torch.tensor([i * n + k for i, f in enumerate(data) for k in f[0]]), "go": torch.tensor([i * n + k for i, f in enumerate(data) for k in f[1]]),
             "labels": torch.tensor([k for f in data for k in f[2]]), "observed": torch.cat([f[3].view(n, o.input) for f in data]),
             "state": torch.cat([f[4].view(n, o.hidden) for f in data])}
        if o.how == "padded":
            counts = torch.bincount(x["go"], minlength=n * len(data))
            place = torch.arange(len(x["go"])) - (counts.cumsum(0) - counts)[x["go"]]
            x["index"] = torch.zeros(n * len(data), int(counts.max()), dtype=torch.long)
            x["index"][x["go"], place] = x["come"]
            x["least"] = torch.full(x["index"].shape, -1e30)
            x["least"][x["go"], place] = 0
            x["any"] = (counts > 0).float().view(-1, 1, 1)
        return x

    def padded(self, x, q, k, v):
        agents, most = x["index"].shape
        k, v = (y.reshape(agents, -1).index_select(0, x["index"].view(-1)).view(agents, most, self.heads, -1).transpose(1, 2) for y in (k, v))
        score = torch.matmul(q.unsqueeze(2), k.transpose(2, 3)).squeeze(2) + x["least"].unsqueeze(1)
        return torch.matmul(torch.softmax(score, 2).unsqueeze(2), v).squeeze(2) * x["any"]

    def edges(self, x, q, k, v):
        score = (q.index_select(0, x["go"]) * k.index_select(0, x["come"])).sum(2)
        most = score.detach().new_full((len(q), self.heads), -1e30).scatter_reduce(0, x["go"].unsqueeze(1).expand_as(score), score.detach(), "amax")
        part = torch.exp(score - most.index_select(0, x["go"])).unsqueeze(2)
        whole = part.new_zeros(len(q), self.heads, 1).index_add(0, x["go"], part)
        around = torch.zeros_like(q).index_add(0, x["go"], part * v.index_select(0, x["come"]))
        return around / whole.clamp(min=1e-30)

    def levels(self, x, train):
        h = self.state(x["observed"], x["state"])
        q, k, v = self.qkv(h).view(len(h), 3, self.heads, -1).unbind(1)
        around = getattr(self, self.o.how)(x, q / math.sqrt(q.shape[2]), k, v).reshape(len(h), -1)
        y = self.policy(torch.cat([h, around], 1))
        return loss_of(y, x["labels"], True) / self.o.words if train else (y, h)

    def in_order(self, x, y):
        return torch.cat([torch.cat([a.flatten(), b.flatten()]) for a, b in zip(*(part.split(self.o.words) for part in y))])

    def units(self, data):
        return self.o.words * len(data)


class Policy(Net):
    """Agents which each observe, remember and act: a sample is (what it observes, what it remembers)."""
    unit, trains = "agents", False

    def __init__(self, o):
        linear, h = torch.nn.Linear, o.hidden
        self.o, self.first, self.second, self.state, self.head = o, linear(o.input, h), linear(h, h), torch.nn.GRUCell(h, h), linear(h, o.classes)

    def weights(self, t):
        layers = {"first": self.first, "second": self.second, "head": self.head}
        return gru_of(self.state, t, "state") + [pair for name, layer in layers.items() for pair in linear_of(layer, t, name)]

    @staticmethod
    def batch(random, o):
        observed, memory, _ = random.values(o.batch * (o.input + 2 * o.hidden)).split([o.batch * o.input, o.batch * o.hidden, o.batch * o.hidden])
        return list(zip(observed.view(o.batch, -1), memory.view(o.batch, -1)))

    def prepare(self, data):
        return torch.stack([x for x, _ in data]), torch.stack([m for _, m in data])

    def levels(self, x, train):
        self.memory = self.state(torch.relu(self.second(torch.relu(self.first(x[0])))), x[1])
        return self.head(self.memory)

    def units(self, data):
        return len(data)


class PolicyMlp(Policy):
    """The same agents without a memory."""

    def __init__(self, o):
        linear, h = torch.nn.Linear, o.hidden
        self.o, self.first, self.second, self.head = o, linear(o.input, h), linear(h, h), linear(h, o.classes)

    def weights(self, t):
        layers = {"first": self.first, "second": self.second, "head": self.head}
        return [pair for name, layer in layers.items() for pair in linear_of(layer, t, name)]

    def levels(self, x, train):
        return self.head(torch.relu(self.second(torch.relu(self.first(x[0])))))


class Decode(Net):
    """One new query, key and value a step and sequence, over a cache that was allocated once. All sequences have the same values."""
    unit, heads, trains = "steps", 8, False

    def __init__(self, o):
        self.o = o
        self.key = torch.zeros(o.batch * self.heads, o.hidden // self.heads, o.max)  # transposed: the faster way here
        self.value = torch.zeros(o.batch * self.heads, o.max, o.hidden // self.heads)

    def weights(self, t):
        return []

    @staticmethod
    def batch(random, o):
        i = torch.arange(o.max * 3 * o.hidden)
        x = ((i * 2654435761 % (1 << 32) >> 8) & 1023).float() / 1024 - 0.5
        x = x.view(o.max, 3, 1, Decode.heads, 1, -1).transpose(0, 1).expand(-1, -1, o.batch, -1, -1, -1)
        return [x.reshape(3, o.max, o.batch * Decode.heads, 1, -1)] * o.batch

    def prepare(self, data):
        return data[0]

    def levels(self, x, train):
        q, k, v = x[0] / math.sqrt(self.o.hidden // self.heads), x[1].transpose(2, 3), x[2]
        for t in range(self.o.max):
            self.key[:, :, t : t + 1] = k[t]
            self.value[:, t : t + 1] = v[t]
            p = torch.softmax(torch.bmm(q[t], self.key[:, :, : t + 1]), 2)
            y = torch.bmm(p, self.value[:, : t + 1])
        return y

    def in_order(self, x, y):
        return y[: self.heads]

    def units(self, data):
        return self.o.max * len(data)
