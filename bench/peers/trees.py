"""Trees: by levels, with index tensors made beforehand (levels) or in the time (build), and one at a time by recursion (samples)."""
import torch
import torch.nn.functional as F
from common import Net, weight

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


def sick_pair(random, o):
    trees = [dependency_tree(random, o), dependency_tree(random, o)]
    target = [0.0] * o.classes
    low = random.below(o.classes - 1)
    target[low] = random.below(100) / 100
    target[low + 1] = 1 - target[low]
    return trees, target


def sst_tree(random, o):
    half, tree = (o.max - o.min) // 2, []
    leaves = o.min + random.below(half + 1)
    leaves += random.below(half + 1)
    binary_tree(random, o, leaves, tree)
    return tree


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
    return {"rows": [(t, i) for _, _, t, i in nodes], "words": torch.tensor([trees[t][i][0] for _, _, t, i in nodes]), "labels": torch.tensor([trees[t][i][2] for _, _, t, i in nodes]),
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


def parents_first(tree):
    """Nodes of a binary tree: each before its children, the left one before the right."""
    order, stack = [], [len(tree) - 1]
    while stack:
        order.append(stack.pop())
        stack += reversed(tree[order[-1]][1])
    return order


# ---- networks ----

def cell(gates, kept):
    """i, o, u of a row and what is kept of the old c."""
    n = gates.shape[1] // 3
    i, o = torch.sigmoid(gates[:, :2 * n]).split(n, 1)
    c = i * torch.tanh(gates[:, 2 * n:])
    if kept is not None:
        c = c + kept
    return o * torch.tanh(c), c


class Sick(Net):
    unit, optimiser, hows = "nodes", torch.optim.Adagrad, ("levels", "build", "samples")

    def __init__(self, o):
        self.o, h = o, o.hidden
        self.words = torch.randn(o.words, o.input) * 0.1
        self.W, self.b, self.U = weight(o.input, 3 * h), weight(3 * h), weight(h, 3 * h)
        self.Wf, self.bf, self.Uf = weight(o.input, h), weight(h), weight(h, h)
        self.V, self.a, self.T, self.d = weight(2 * h, 50), weight(50), weight(50, o.classes), weight(o.classes)

    def weights(self, t):
        n = self.o.input
        W, Wf = t["tree.W"], t["tree.W_f"]
        return [(self.words, t["words"]), (self.W, W[:n]), (self.U, W[n:]), (self.b, t["tree.b"]), (self.Wf, Wf[:n]), (self.Uf, Wf[n:]),
                (self.bf, t["tree.b_f"]), (self.V, t["head.W"]), (self.a, t["head.b"]), (self.T, t["classes.W"]), (self.d, t["classes.b"])]

    draw = staticmethod(sick_pair)

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

    def units(self, pairs):
        return sum(len(t) for trees, _ in pairs for t in trees)


class Sst(Net):
    unit, optimiser, hows = "nodes", torch.optim.Adagrad, ("levels", "build", "samples")

    def __init__(self, o):
        self.o, h = o, o.hidden
        self.trains = o.classes > 0
        self.words = torch.randn(o.words, o.input) * 0.1
        self.L, self.bl, self.W, self.b = weight(o.input, 3 * h), weight(3 * h), weight(2 * h, 5 * h), weight(5 * h)
        self.V, self.a = weight(h, max(o.classes, 1)), weight(max(o.classes, 1))

    def weights(self, t):
        out = [(self.V, t["classes.W"]), (self.a, t["classes.b"])] if self.o.classes else []
        return out + [(self.words, t["words"]), (self.L, t["tree.leaf.W"]), (self.bl, t["tree.leaf.b"]),
                      (self.W, t["tree.inner.W"]), (self.b, t["tree.inner.b"])]

    draw = staticmethod(sst_tree)

    def prepare(self, trees):
        x = levels_of(trees)
        x["trees"] = trees
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

    def in_order(self, x, y):
        row = {node: r for r, node in enumerate(x["rows"])}
        return y[[row[t, i] for t, tree in enumerate(x["trees"]) for i in parents_first(tree)]] if self.o.classes else y

    def sample_in_order(self, tree, y):
        return torch.cat([y[i] for i in parents_first(tree)]) if self.o.classes else y

    def units(self, trees):
        return sum(len(t) for t in trees)
