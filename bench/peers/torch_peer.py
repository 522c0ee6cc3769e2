#!/usr/bin/env python3
"""The bench's workloads in PyTorch: a sample at a time by recursion, or batched by hand.

    python3 bench/peers/torch_peer.py --workload treelstm-sick --mode train --how levels --batch 256 --seconds 2

Prints one JSON object a line, with the keys of bench/bench --json. Data come from the same generator (splitmix64) with
the same draws. --how levels: the index tensors are made before the clock starts, PyTorch is spared building them;
--how build: they are made within the time of a batch, by plain Python loops. Of the transformer levels is PyTorch's own
encoder of padded sentences, nested the same layers of nested tensors (inference only), and packed has the rows of real
tokens side by side, padded for attention alone. --sorted: batches of sentences in order of length. decode: 512 queries
in turn, 8 heads of 64, over a cache of keys and values that each step extends.
"""
import argparse, json, math, statistics, time, warnings
import torch
import torch.nn.functional as F

MASK = (1 << 64) - 1


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        if n <= 1:
            return 0
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n


# ---- data: a tree is a list of (word, children, label), its root first (sick) or last (sst) ----

def dependency_tree(random, o):
    n = o.min + random.below(o.max - o.min + 1)
    tree = []
    for i in range(n):
        tree.append((random.below(o.words), [], 0))
        if i:
            tree[random.below(i)][1].append(i)
    return tree


def binary_tree(random, o, leaves, tree):
    label = random.below(max(o.classes, 1))
    if leaves == 1:
        tree.append((random.below(o.words), [], label))
    else:
        split = 1 + random.below(leaves - 1)
        left = binary_tree(random, o, split, tree)
        right = binary_tree(random, o, leaves - split, tree)
        tree.append((0, [left, right], label))
    return len(tree) - 1


def sick_batch(random, o):
    pairs = []
    for _ in range(o.batch):
        trees = [dependency_tree(random, o), dependency_tree(random, o)]
        target = [0.0] * o.classes
        low = random.below(o.classes - 1)
        target[low] = random.below(100) / 100
        target[low + 1] = 1 - target[low]
        pairs.append((trees, target))
    return pairs


def sst_batch(random, o):
    half, trees = (o.max - o.min) // 2, []
    for _ in range(o.batch):
        leaves = o.min + random.below(half + 1)
        leaves += random.below(half + 1)
        tree = []
        binary_tree(random, o, leaves, tree)
        trees.append(tree)
    return trees


def levels_of(trees):
    """Rows of all nodes by level, and within it by their parent's level, so that every state is handed on once: what
    level l reads is the concatenation of the pieces that lower levels cut off for it. Roots are pieces for level -1."""
    nodes = []
    for t, tree in enumerate(trees):
        height, above = [0] * len(tree), [-1] * len(tree)
        root_first = bool(tree[0][1])
        for i in (reversed(range(len(tree))) if root_first else range(len(tree))):
            for c in tree[i][1]:
                height[i] = max(height[i], height[c] + 1)
        for i in range(len(tree)):
            for c in tree[i][1]:
                above[c] = height[i]
        nodes += [(height[i], above[i], t, i) for i in range(len(tree))]
    nodes.sort()
    count = nodes[-1][0] + 1
    place, pools = {}, {}
    starts, pieces, child, parent = [0] * (count + 1), [{} for _ in range(count)], [[] for _ in range(count)], [[] for _ in range(count)]
    for r, (l, up, t, i) in enumerate(nodes):
        place[t, i] = pools[up] = pools.get(up, -1) + 1
        pieces[l][up] = pieces[l].get(up, 0) + 1
        starts[l + 1] = r + 1
    for r, (l, up, t, i) in enumerate(nodes):
        for c in trees[t][i][1]:
            child[l].append(place[t, c])
            parent[l].append(r - starts[l])
    return {"words": torch.tensor([trees[t][i][0] for _, _, t, i in nodes]), "labels": torch.tensor([trees[t][i][2] for _, _, t, i in nodes]),
            "starts": starts, "place": place, "up": [list(p) for p in pieces], "sizes": [list(p.values()) for p in pieces],
            "child": [torch.tensor(c) for c in child], "parent": [torch.tensor(p) for p in parent]}


class Pools:
    """Pieces of h and c on their way to the level that reads them."""

    def __init__(self, x):
        self.x, self.pieces = x, {}

    def give(self, l, h, c):
        for up, a, b in zip(self.x["up"][l], h.split(self.x["sizes"][l]), c.split(self.x["sizes"][l])):
            self.pieces.setdefault(up, []).append((a, b))

    def take(self, l, index):
        pieces = self.pieces.pop(l)
        h = pieces[0][0] if len(pieces) == 1 else torch.cat([p[0] for p in pieces])
        c = pieces[0][1] if len(pieces) == 1 else torch.cat([p[1] for p in pieces])
        return h.index_select(0, index), c.index_select(0, index)


# ---- networks ----

def weight(*shape):
    bound = math.sqrt(6 / sum(shape)) if len(shape) > 1 else 0.0
    return torch.nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def cell(gates, kept):
    """i, o, u of a row and what is kept of the old c."""
    n = gates.shape[1] // 3
    i, o = torch.sigmoid(gates[:, :2 * n]).split(n, 1)
    c = i * torch.tanh(gates[:, 2 * n:])
    if kept is not None:
        c = c + kept
    return o * torch.tanh(c), c


class Sick:
    unit, optimiser = "nodes", torch.optim.Adagrad

    def __init__(self, o):
        self.o, h = o, o.hidden
        self.words = torch.randn(o.words, o.input) * 0.1
        self.W, self.b, self.U = weight(o.input, 3 * h), weight(3 * h), weight(h, 3 * h)
        self.Wf, self.bf, self.Uf = weight(o.input, h), weight(h), weight(h, h)
        self.V, self.a, self.T, self.d = weight(2 * h, 50), weight(50), weight(50, o.classes), weight(o.classes)
        self.parameters = [self.W, self.b, self.U, self.Wf, self.bf, self.Uf, self.V, self.a, self.T, self.d]

    batch = staticmethod(sick_batch)

    def prepare(self, pairs):
        trees = [t for p in pairs for t in p[0]]
        x = levels_of(trees)
        x["roots"] = torch.tensor([x["place"][t, 0] for t in range(len(trees))])
        x["target"] = torch.tensor([p[1] for p in pairs])
        return x

    def head(self, l, r, target, train):
        y = torch.sigmoid(torch.addmm(self.a, torch.cat([l * r, (l - r).abs()], 1), self.V))
        y = torch.addmm(self.d, y, self.T)
        return F.kl_div(F.log_softmax(y, 1), target, reduction="sum") if train else F.softmax(y, 1)

    def levels(self, x, train):
        e = F.embedding(x["words"], self.words)
        starts, inner = x["starts"], x["starts"][1]
        gates = torch.addmm(self.b, e, self.W)
        forget = torch.addmm(self.bf, e[inner:], self.Wf)
        pools = Pools(x)
        pools.give(0, *cell(gates[:inner], None))
        for l in range(1, len(starts) - 1):
            parent = x["parent"][l]
            a, b = starts[l], starts[l + 1]
            h, c = pools.take(l, x["child"][l])
            room = h.new_zeros(b - a, self.o.hidden)
            total = room.index_add(0, parent, h)
            f = torch.sigmoid(torch.addmm(forget[a - inner:b - inner].index_select(0, parent), h, self.Uf))
            kept = room.index_add(0, parent, f * c)
            pools.give(l, *cell(torch.addmm(gates[a:b], total, self.U), kept))
        pairs = pools.take(-1, x["roots"])[0].view(-1, 2, self.o.hidden)
        return self.head(pairs[:, 0], pairs[:, 1], x["target"], train)

    def node(self, tree, i):
        e = self.words[tree[i][0]].unsqueeze(0)
        gates = torch.addmm(self.b, e, self.W)
        if not tree[i][1]:
            return cell(gates, None)
        states = [self.node(tree, k) for k in tree[i][1]]
        h, c = torch.cat([s[0] for s in states]), torch.cat([s[1] for s in states])
        f = torch.sigmoid(torch.addmm(torch.addmm(self.bf, e, self.Wf), h, self.Uf))
        return cell(torch.addmm(gates, h.sum(0, keepdim=True), self.U), (f * c).sum(0, keepdim=True))

    def sample(self, pair, train):
        l, r = self.node(pair[0][0], 0)[0], self.node(pair[0][1], 0)[0]
        return self.head(l, r, torch.tensor([pair[1]]), train)

    def work(self, pairs, train):
        flop = nodes = 0
        for trees, _ in pairs:
            for t in trees:
                inner = sum(1 for n in t if n[1])
                x, u = 8 * self.o.input * self.o.hidden * len(t), self.o.hidden ** 2 * (6 * inner + 2 * (len(t) - 1))
                nodes += len(t)
                flop += 2 * x + 3 * u if train else x + u
        return nodes, flop


class Sst:
    unit, optimiser = "nodes", torch.optim.Adagrad

    def __init__(self, o):
        self.o, h = o, o.hidden
        self.words = torch.randn(o.words, o.input) * 0.1
        self.L, self.bl, self.W, self.b = weight(o.input, 3 * h), weight(3 * h), weight(2 * h, 5 * h), weight(5 * h)
        self.V, self.a = weight(h, max(o.classes, 1)), weight(max(o.classes, 1))
        self.parameters = [self.L, self.bl, self.W, self.b] + ([self.V, self.a] if o.classes else [])

    batch = staticmethod(sst_batch)

    def prepare(self, trees):
        x = levels_of(trees)
        x["roots"] = torch.tensor([x["place"][t, len(tree) - 1] for t, tree in enumerate(trees)])
        return x

    def inner(self, h, c):
        """h, c: left then right child of every row, [rows x 2h]."""
        n = self.o.hidden
        g = torch.addmm(self.b, h, self.W)
        s = torch.sigmoid(g[:, :4 * n])
        kept = (s[:, 2 * n:] * c)
        new = s[:, :n] * torch.tanh(g[:, 4 * n:]) + kept[:, :n] + kept[:, n:]
        return s[:, n:2 * n] * torch.tanh(new), new

    def head(self, h, labels, train):
        y = torch.addmm(self.a, h, self.V)
        return F.cross_entropy(y, labels, reduction="sum") if train else y

    def levels(self, x, train):
        starts, n = x["starts"], 2 * self.o.hidden
        h, c = cell(torch.addmm(self.bl, F.embedding(x["words"][:starts[1]], self.words), self.L), None)
        pools, hs = Pools(x), [h]
        pools.give(0, h, c)
        for l in range(1, len(starts) - 1):
            h, c = pools.take(l, x["child"][l])
            h, c = self.inner(h.view(-1, n), c.view(-1, n))
            pools.give(l, h, c)
            hs.append(h)
        return self.head(torch.cat(hs), x["labels"], train) if self.o.classes else pools.take(-1, x["roots"])[0]

    def node(self, tree, i, states):
        word, children, label = tree[i]
        if children:
            a, b = self.node(tree, children[0], states), self.node(tree, children[1], states)
            s = self.inner(torch.cat([a[0], b[0]], 1), torch.cat([a[1], b[1]], 1))
        else:
            s = cell(torch.addmm(self.bl, self.words[word].unsqueeze(0), self.L), None)
        states.append((s[0], label))
        return s

    def sample(self, tree, train):
        states = []
        root = self.node(tree, len(tree) - 1, states)[0]
        if not self.o.classes:
            return root
        out = [self.head(h, torch.tensor([label]), train) for h, label in states]
        return sum(out) if train else out

    def work(self, trees, train):
        flop = nodes = 0
        for t in trees:
            leaves, h = (len(t) + 1) // 2, self.o.hidden
            x, u = 6 * self.o.input * h * leaves, 20 * h * h * (leaves - 1) + 2 * h * self.o.classes * len(t)
            nodes += len(t)
            flop += 2 * x + 3 * u if train else x + u
        return nodes, flop


class Mnist:
    unit, optimiser = "images", torch.optim.Adam

    def __init__(self, o):
        sizes = [o.input, o.hidden, 100, o.classes]
        self.o = o
        self.W = [weight(a, b) for a, b in zip(sizes, sizes[1:])]
        self.b = [weight(b) for b in sizes[1:]]
        self.parameters = self.W + self.b

    @staticmethod
    def batch(random, o):
        x = torch.tensor([[random.below(256) / 256 for _ in range(o.input)] for _ in range(o.batch)])
        return list(zip(x, [random.below(o.classes) for _ in range(o.batch)]))

    def prepare(self, data):
        return [x for x, _ in data], torch.tensor([y for _, y in data])

    def levels(self, data, train):
        x = torch.stack(data[0])
        for i, (W, b) in enumerate(zip(self.W, self.b)):
            x = torch.addmm(b, x, W)
            x = torch.relu(x) if i < 2 else x
        return F.cross_entropy(x, data[1], reduction="sum") if train else x

    def sample(self, data, train):
        return self.levels(([data[0]], torch.tensor([data[1]])), train)

    def work(self, data, train):
        x, u = 2 * self.o.input * self.o.hidden, 200 * (self.o.hidden + self.o.classes)
        return len(data), len(data) * (2 * x + 3 * u if train else x + u)


class Transformer:
    """Layers of torch.nn; a sentence is (its words, its label)."""
    unit, optimiser = "tokens", torch.optim.Adam

    def __init__(self, o):
        layer = torch.nn.TransformerEncoderLayer(o.hidden, 4, 4 * o.hidden, 0.0, batch_first=True, norm_first=True)
        self.o, self.words = o, torch.nn.Embedding(o.words, o.hidden)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()  # for the fast path
        self.head = torch.nn.Linear(o.hidden, o.classes)
        self.parameters = [p for part in (self.words, self.encoder, self.head) for p in part.parameters()]

    @staticmethod
    def batch(random, o):
        out = []
        for _ in range(o.batch):
            n = o.min + random.below(o.max - o.min + 1)
            label = random.below(o.classes)
            out.append(([random.below(o.words) for _ in range(n)], label))
        return out

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
        x["places"] = torch.arange(len(data) * longest)
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
        sums = getattr(self, {"nested": "nested", "packed": "packed"}.get(self.o.how, "padded"))(x)
        y = self.head(sums / x["n"].unsqueeze(1))
        return F.cross_entropy(y, x["labels"], reduction="sum") if train else y

    def sample(self, sentence, train):
        y = self.encoder(self.words(torch.tensor([sentence[0]]))).mean(1)
        y = self.head(y)
        return F.cross_entropy(y, torch.tensor([sentence[1]]), reduction="sum") if train else y

    def work(self, data, train):
        d, tokens, flop = self.o.hidden, 0, 0
        for n in (len(words) for words, _ in data):
            tokens += n
            flop += 2 * n * (24 * d * d + 4 * n * d) + 2 * d * self.o.classes
        return tokens, flop * 3 if train else flop


class Graph:
    """Rounds of sums over neighbours; a molecule is (kinds, where edges come from, where they go, label)."""
    unit, optimiser = "atoms", torch.optim.Adam

    def __init__(self, o):
        h = o.hidden
        self.o, self.kinds, self.head = o, torch.nn.Embedding(o.words, h), torch.nn.Linear(h, o.classes)
        self.rounds = [[torch.nn.Linear(h, h), torch.nn.Linear(h, h)] for _ in range(4)]
        self.parameters = [p for part in [self.kinds, self.head] + sum(self.rounds, []) for p in part.parameters()]

    @staticmethod
    def batch(random, o):
        out = []
        for _ in range(o.batch):
            atoms = o.min + random.below(o.max - o.min + 1)
            label, bonds, ends = random.below(o.classes), atoms - 1 + atoms // 8, []
            for k in range(bonds):
                a = k + 1 if k < atoms - 1 else random.below(atoms)
                ends.append((a, random.below(k + 1 if k < atoms - 1 else atoms)))
            kinds = [random.below(o.words) for _ in range(atoms)]
            out.append((kinds, [e for pair in ends for e in pair], [e for pair in ends for e in reversed(pair)], label))
        return out

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
        for inner, outer in self.rounds:
            around = h.index_add(0, go, h.index_select(0, come))
            h = outer(torch.relu(inner(around)))
        y = self.head(h.new_zeros(len(labels), self.o.hidden).index_add(0, of, h))
        return F.cross_entropy(y, labels, reduction="sum") if train else y

    def sample(self, molecule, train):
        return self.levels(self.prepare([molecule]), train)

    def work(self, data, train):
        h, atoms = self.o.hidden, sum(len(x[0]) for x in data)
        flop = 16 * h * h * atoms + 2 * h * self.o.classes * len(data)
        return atoms, flop * 3 if train else flop


class Decode:
    """One new query, key and value a step and sequence, over a cache that was allocated once."""
    unit, heads = "steps", 8

    def __init__(self, o):
        self.o = o
        self.key = torch.zeros(o.batch * self.heads, o.hidden // self.heads, o.max)  # transposed: the faster way here
        self.value = torch.zeros(o.batch * self.heads, o.max, o.hidden // self.heads)

    @staticmethod
    def batch(random, o):
        return [(torch.rand(3, o.max, o.batch * Decode.heads, 1, o.hidden // Decode.heads) - 0.5)] * o.batch

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

    def work(self, data, train):
        n = self.o.max
        return n * len(data), 2 * n * (n + 1) * self.o.hidden * len(data)


# ---- measuring ----

READY = ("levels", "nested", "packed")  # index tensors are made before the clock starts
FORWARD = ("treelstm-tiny", "decode")   # inference only
WORKLOADS = {
    "treelstm-sick": (Sick, dict(batch=256, input=300, hidden=150, words=2400, classes=5, min=5, max=15)),
    "treelstm-sst": (Sst, dict(batch=256, input=300, hidden=150, words=10000, classes=5, min=5, max=35)),
    "treelstm-tiny": (Sst, dict(batch=256, input=8, hidden=8, words=10000, classes=0, min=5, max=35)),
    "transformer": (Transformer, dict(batch=32, input=128, hidden=128, words=10000, classes=5, min=5, max=40)),
    "graph": (Graph, dict(batch=32, input=64, hidden=64, words=20, classes=2, min=10, max=100)),
    "decode": (Decode, dict(batch=1, input=512, hidden=512, words=1, classes=0, min=512, max=512)),
    "mnist-mlp": (Mnist, dict(batch=32, input=784, hidden=200, words=1, classes=10, min=1, max=1)),
}


def run_batch(net, how, data, prepared, train, optimiser):
    if how == "build":
        prepared = net.prepare(data)
    out = [net.sample(x, train) for x in data] if how == "samples" else net.levels(prepared, train)
    if train:
        loss = (sum(out) if how == "samples" else out) / len(data)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()


def check(net, data):
    """Level-wise and one at a time must be one network: their summed losses agree."""
    with torch.no_grad():
        a, b = float(net.levels(net.prepare(data), True)), float(sum(net.sample(x, True) for x in data))
    if not abs(a - b) <= 1e-4 * abs(b):
        raise SystemExit("torch_peer: level-wise gives %g, one at a time %g" % (a, b))


def measure(net, o, train):
    random = Random(o.seed)
    rotation = min(64, max(8, 512 // o.batch))
    data = [net.batch(random, o) for _ in range(rotation)]
    if o.sorted:
        flat = sorted((x for d in data for x in d), key=lambda x: len(x[0]))
        data = [flat[i : i + o.batch] for i in range(0, len(flat), o.batch)]
    if o.workload not in FORWARD:
        check(net, data[0][:8])
    prepared = [net.prepare(d) if o.how in READY else None for d in data]
    optimiser = net.optimiser(net.parameters, lr=0.0001 if net.optimiser is torch.optim.Adam else 0.01) if train else None
    times = [[] for _ in data]
    with torch.set_grad_enabled(train):
        for i in range(2 if o.how == "samples" else rotation):  # warm up
            run_batch(net, o.how, data[i], prepared[i], train, optimiser)
        start, i = time.perf_counter(), 0
        while i < 2 or time.perf_counter() - start < o.seconds:
            begin = time.perf_counter()
            run_batch(net, o.how, data[i % rotation], prepared[i % rotation], train, optimiser)
            times[i % rotation].append(time.perf_counter() - begin)
            i += 1
    done = [k for k in range(rotation) if times[k]]
    seconds = sum(statistics.median(times[k]) for k in done)
    work = [net.work(data[k], train) for k in done]
    print(json.dumps({
        "workload": o.workload, "mode": "train" if train else "infer", "batch": o.batch, "threads": o.threads,
        "schedule": "torch-" + o.how, "isa": "torch " + torch.__version__, "samples_per_s": round(len(done) * o.batch / seconds, 1),
        "units_per_s": round(sum(w[0] for w in work) / seconds, 1), "unit": net.unit,
        "flop_per_s": round(sum(w[1] for w in work) / seconds), "batches_timed": i}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workload", choices=WORKLOADS)
    p.add_argument("--mode", choices=["infer", "train"])
    p.add_argument("--how", choices=["levels", "build", "samples", "nested", "packed"], default="levels")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--sorted", choices=["on", "off"], default="off")
    p.add_argument("--json", action="store_true", help="accepted for symmetry: it always does")
    for name in ("batch", "input", "hidden", "words", "classes", "min", "max"):
        p.add_argument("--" + name, type=int)
    given = p.parse_args()
    given.sorted = given.sorted == "on"
    torch.set_num_threads(given.threads)
    warnings.filterwarnings("ignore", message=".*ested")
    for name, (make, sizes) in WORKLOADS.items():
        if given.workload not in (None, name):
            continue
        o = argparse.Namespace(**vars(given))
        o.workload = name
        for key, value in sizes.items():
            if getattr(given, key) is None:
                setattr(o, key, value)
        for mode in ("infer", "train"):
            if given.mode in (None, mode) and not (mode == "train" and name in FORWARD):
                torch.manual_seed(o.seed)
                measure(make(o), o, mode == "train")


if __name__ == "__main__":
    main()
