"""Sequences: nn.LSTM and nn.GRU, packed and padded, also of batches in order of length; a lattice by positions."""
import math
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence
from common import Net, gru_of, linear_of, lstm_of
from trees import cell


def packing(lengths):
    """Of sequences of these lengths, the longest first: (sequence, step) in the order of packed rows, and rows of each step."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    rows = [(i, k) for k in range(max(lengths)) for i in order if lengths[i] > k]
    return order, rows, torch.tensor([sum(n > k for n in lengths) for k in range(max(lengths))])


class Sequences(Net):
    """Layers of recurrent cells over sentences of (words, labels), each the next word. What is wanted of a state: its logarithmic loss
    (softmax) or nothing but itself, whose sum is the loss in training; of a chain only of the last state."""
    unit, optimiser = "tokens", torch.optim.SGD
    hows = ("packed", "padded", "packed-by-length", "padded-by-length")
    layers, last, softmax, make, prefix, of = 2, False, False, torch.nn.LSTM, "lstm", staticmethod(lstm_of)

    def __init__(self, o):
        self.o = o
        self.words = torch.nn.Embedding(o.words, o.input, sparse=True)
        self.words.weight.requires_grad_(not self.last)
        self.rnn = self.make(o.input, o.hidden, self.layers)
        self.next = torch.nn.Linear(o.hidden, o.words) if self.softmax else None

    def weights(self, t):
        pairs = [(self.words.weight, t["words"])]
        for i in range(self.layers):
            pairs += self.of(self.rnn, t, "%s%d" % (self.prefix, i), "_l%d" % i)
        return pairs + (linear_of(self.next, t, "next") if self.next else [])

    @staticmethod
    def draw(random, o):
        n, word, pairs = o.min + random.below(o.max - o.min + 1), random.below(o.words), []
        for _ in range(n):
            label = random.below(o.words)
            pairs.append((word, label))
            word = label
        return pairs

    def prepare(self, data):
        lengths = [len(x) for x in data]
        _, rows, sizes = packing(lengths)
        x = {"rows": rows, "labels": torch.tensor([data[i][k][1] for i, k in rows]), "sizes": sizes, "longest": max(lengths)}
        if self.o.how == "packed":
            x["words"] = torch.tensor([data[i][k][0] for i, k in rows])
        else:
            x["words"] = torch.tensor([[d[k][0] if k < len(d) else 0 for d in data] for k in range(max(lengths))])
            x["place"] = None if min(lengths) == max(lengths) else torch.tensor([k * len(data) + i for i, k in rows])
        return x

    def states(self, x):
        """Of all real tokens in the order of x["rows"]."""
        e = self.words(x["words"])
        if self.o.how == "packed":
            return self.rnn(PackedSequence(e, x["sizes"]))[0].data
        y = self.rnn(e)[0].view(-1, self.o.hidden)
        return y if x["place"] is None else y.index_select(0, x["place"])

    def levels(self, x, train):
        h = self.states(x)
        if self.last:
            h = h[-x["sizes"][-1]:]
        if self.softmax:
            return F.cross_entropy(self.next(h), x["labels"], reduction="sum" if train else "none")
        return h.sum() if train else h

    def in_order(self, x, y):
        """Sentence by sentence. padded rows of one length are in the order of the sentences as they are: so are packed ones."""
        rows = x["rows"][-int(x["sizes"][-1]):] if self.last else x["rows"]
        return y[sorted(range(len(rows)), key=lambda r: rows[r])]

    def units(self, data):
        return sum(len(x) for x in data)


class LanguageModel(Sequences):
    softmax = True


class Gru(Sequences):
    make, prefix, of = torch.nn.GRU, "gru", staticmethod(gru_of)


class Chain(Sequences):
    layers, last, hows = 1, True, ("padded",)


class Pointer(Sequences):
    """A sentence is (its words, the place of the one that is pointed at). Scores of all its rows make one choice: of packed rows by
    sums over each sentence's rows, of padded ones behind a mask."""
    unit, layers = "words", 1

    def __init__(self, o):
        super().__init__(o)
        self.key, self.query = torch.nn.Linear(o.hidden, o.hidden, bias=False), torch.nn.Linear(o.hidden, o.hidden)

    def weights(self, t):
        return super().weights(t) + [(self.key.weight, t["key"].t())] + linear_of(self.query, t, "query")

    @staticmethod
    def draw(random, o):
        n = o.min + random.below(o.max - o.min + 1)
        words = [random.below(o.words) for _ in range(n)]
        return words, random.below(n)

    def prepare(self, data):
        lengths = [len(words) for words, _ in data]
        order, rows, sizes = packing(lengths)
        x = {"rows": rows, "sizes": sizes}
        if self.o.how == "packed":
            x["words"] = torch.tensor([data[i][0][k] for i, k in rows])
            rank = {i: r for r, i in enumerate(order)}
            x["sentence"] = torch.tensor([rank[i] for i, _ in rows])
            x["right"] = torch.tensor([r for r, (i, k) in enumerate(rows) if data[i][1] == k])
        else:
            longest = max(lengths)
            x["words"] = torch.tensor([[words[k] if k < len(words) else 0 for words, _ in data] for k in range(longest)])
            x["hidden"] = torch.tensor([[0.0 if k < n else -math.inf for n in lengths] for k in range(longest)])
            x["last"], x["sentence"] = torch.tensor(lengths) - 1, torch.arange(len(data))
            x["right"] = torch.tensor([place for _, place in data])
        return x

    def packed(self, x):
        y, (h, _) = self.rnn(PackedSequence(self.words(x["words"]), x["sizes"]))
        at = x["sentence"]
        score = (self.key(y.data) * self.query(h[0]).index_select(0, at)).sum(1)
        most = score.detach().new_full((len(h[0]),), -1e30).scatter_reduce(0, at, score.detach(), "amax")
        score = score - most.index_select(0, at)
        whole = score.new_zeros(len(most)).index_add(0, at, torch.exp(score))
        return score - torch.log(whole).index_select(0, at)

    def padded(self, x):
        y, _ = self.rnn(self.words(x["words"]))
        score = (self.key(y) * self.query(y[x["last"], x["sentence"]])).sum(2)
        return torch.log_softmax(score + x["hidden"], 0)

    def levels(self, x, train):
        y = getattr(self, self.o.how)(x)
        if not train:
            return torch.exp(y)
        return -(y[x["right"]] if self.o.how == "packed" else y[x["right"], x["sentence"]]).sum()

    def in_order(self, x, y):
        """Sentence by sentence."""
        if self.o.how == "padded":
            return y.t()[x["hidden"].t() == 0]
        return y[sorted(range(len(y)), key=lambda r: x["rows"][r])]

    def units(self, data):
        return sum(len(words) for words, _ in data)


class Crf(Sequences):
    """A sentence of (words, classes), whose classes follow one another by a score of each two. Sums over all ways go step by step over
    the sentences that are as long; padded ones stay behind a mask."""
    unit, layers = "words", 1

    def __init__(self, o):
        super().__init__(o)
        self.classes, self.moves = torch.nn.Linear(o.hidden, o.classes), torch.nn.Parameter(torch.zeros(o.classes, o.classes))

    def weights(self, t):
        return super().weights(t) + linear_of(self.classes, t, "classes") + [(self.moves, t["transitions"].view(self.moves.shape))]

    @staticmethod
    def draw(random, o):
        n = o.min + random.below(o.max - o.min + 1)
        words = [random.below(o.words) for _ in range(n)]
        return [(word, random.below(o.classes)) for word in words]

    def prepare(self, data):
        x = super().prepare(data)
        lengths = [len(d) for d in data]
        order, sizes = packing(lengths)[0], x["sizes"].tolist()
        x["order"] = [order[r] for n, going in zip(sizes, sizes[1:] + [0]) for r in range(going, n)]  # of ends
        x["steps"] = sizes
        x["moved"] = torch.tensor([after[1] * self.o.classes + before[1] for d in data for before, after in zip(d, d[1:])])
        x["there"] = torch.tensor([[k < n for n in lengths] for k in range(max(lengths))]).unsqueeze(2)
        return x

    def step(self, scores, ways):
        return scores + torch.logsumexp(ways.unsqueeze(1) + self.moves, 2)

    def packed(self, x):
        scores = self.classes(self.states(x))
        ways, ends = None, []
        for part in scores.split(x["steps"]):
            if ways is not None and len(part) < len(ways):
                ends.append(ways[len(part):])
            ways = part if ways is None else self.step(part, ways[: len(part)])
        return scores, torch.cat(ends + [ways])

    def padded(self, x):
        scores = self.classes(self.rnn(self.words(x["words"]))[0])
        ways = scores[0]
        for part, there in zip(scores[1:], x["there"][1:]):
            ways = torch.where(there, self.step(part, ways), ways)
        scores = scores.view(-1, self.o.classes)
        return scores if x["place"] is None else scores.index_select(0, x["place"]), ways

    def levels(self, x, train):
        scores, ways = getattr(self, self.o.how)(x)
        y = torch.logsumexp(ways, 1)
        if not train:
            return y
        return y.sum() - scores.gather(1, x["labels"].unsqueeze(1)).sum() - self.moves.flatten()[x["moved"]].sum()

    def in_order(self, x, y):
        return y if self.o.how == "padded" else y[sorted(range(len(y)), key=lambda r: x["order"][r])]


class Tagger(Net):
    """A word of a sentence is (word, its letters if it is rare, label): both directions over words, whose rare ones come from both
    directions over their letters."""
    unit, optimiser, hows = "words", torch.optim.SGD, ("packed", "packed-by-length")

    def __init__(self, o):
        self.o = o
        self.words, self.letters = torch.nn.Embedding(o.words, o.input, sparse=True), torch.nn.Embedding(60, 20)
        self.rnn = torch.nn.LSTM(o.input, o.hidden, bidirectional=True)
        self.spell = torch.nn.LSTM(20, o.input // 2, bidirectional=True)
        self.head, self.classes = torch.nn.Linear(2 * o.hidden, 32), torch.nn.Linear(32, o.classes)

    def weights(self, t):
        pairs = [(self.words.weight, t["words"]), (self.letters.weight, t["letters"])]
        pairs += lstm_of(self.rnn, t, "lstm0") + lstm_of(self.rnn, t, "lstm1", "_l0_reverse")
        pairs += lstm_of(self.spell, t, "lstm2") + lstm_of(self.spell, t, "lstm3", "_l0_reverse")
        return pairs + linear_of(self.head, t, "head") + linear_of(self.classes, t, "classes")

    @staticmethod
    def draw(random, o):
        n, words = o.min + random.below(o.max - o.min + 1), []
        for _ in range(n):
            word = random.below(o.words)
            words.append([word, [], random.below(o.classes)])
        for word in words:
            if random.below(100) < 10:
                word[1] = [random.below(60) for _ in range(3 + random.below(8))]
        return words

    def prepare(self, data):
        _, rows, sizes = packing([len(x) for x in data])
        x = {"rows": rows, "sizes": sizes, "labels": torch.tensor([data[i][k][2] for i, k in rows])}
        rare = [(r, data[i][k][1]) for r, (i, k) in enumerate(rows) if data[i][k][1]]
        x["words"] = torch.tensor([data[i][k][0] for i, k in rows if not data[i][k][1]], dtype=torch.long)
        common = [r for r, (i, k) in enumerate(rows) if not data[i][k][1]]
        if rare:
            order, letters, x["letter_sizes"] = packing([len(word) for _, word in rare])
            x["letters"] = torch.tensor([rare[i][1][k] for i, k in letters])
            common += [rare[i][0] for i in order]
        x["place"] = torch.empty(len(rows), dtype=torch.long)
        x["place"][common] = torch.arange(len(rows))
        return x

    def levels(self, x, train):
        e = self.words(x["words"])
        if "letters" in x:
            _, (h, _) = self.spell(PackedSequence(self.letters(x["letters"]), x["letter_sizes"]))
            e = torch.cat([e, torch.cat([h[0], h[1]], 1)])
        y = self.rnn(PackedSequence(e.index_select(0, x["place"]), x["sizes"]))[0].data
        y = self.classes(torch.tanh(self.head(y)))
        return F.cross_entropy(y, x["labels"], reduction="sum") if train else y

    def in_order(self, x, y):
        """The words of a sentence from the last to the first."""
        return y[sorted(range(len(y)), key=lambda r: (x["rows"][r][0], -x["rows"][r][1]))]

    def units(self, data):
        return sum(len(x) for x in data)


class Lattice(Net):
    """A character is (word, where words that end before it began); a sample is (characters, label). By positions: rows of a position
    are the lattices that reach it, the longest first, so that the states before it are the first rows of the last position."""
    unit, optimiser, hows = "letters", torch.optim.SGD, ("levels", "build")

    def __init__(self, o):
        self.o, h, linear = o, o.hidden, torch.nn.Linear
        self.words = torch.nn.Embedding(o.words, o.input, sparse=True)
        self.W, self.U, self.Wf, self.Uf = linear(o.input, 3 * h), linear(h, 3 * h, bias=False), linear(o.input, h), linear(h, h, bias=False)
        self.head = linear(h, o.classes)

    def weights(self, t):
        n, W, Wf = self.o.input, t["tree.W"], t["tree.W_f"]
        return [(self.words.weight, t["words"]), (self.W.weight, W[:n].t()), (self.U.weight, W[n:].t()), (self.W.bias, t["tree.b"]),
                (self.Wf.weight, Wf[:n].t()), (self.Uf.weight, Wf[n:].t()), (self.Wf.bias, t["tree.b_f"])] + linear_of(self.head, t, "classes")

    @staticmethod
    def draw(random, o):
        n, label, characters = o.min + random.below(o.max - o.min + 1), random.below(o.classes), []
        for k in range(n):
            words = random.below(3) if k > 4 else 0
            starts = [k - 2 - random.below(3) for _ in range(words)]
            characters.append((random.below(o.words), starts))
        return characters, label

    def prepare(self, data):
        lengths = [len(c) for c, _ in data]
        order, rows, sizes = packing(lengths)
        sizes = sizes.tolist()
        x = {"words": torch.tensor([data[i][0][k][0] for i, k in rows]), "sizes": sizes, "parent": [], "child": []}
        x["order"] = [order[r] for n, going in zip(sizes, sizes[1:] + [0]) for r in range(going, n)]  # of ends
        x["labels"] = torch.tensor([data[i][1] for i in x["order"]])
        for k, n in enumerate(sizes):
            before = [0, sizes[k - 4], sizes[k - 4] + sizes[k - 3]] if k > 4 else None  # rows of three positions, from k - 4 on
            edges = [(r, before[start - k + 4] + r) for r, i in enumerate(order[:n]) for start in data[i][0][k][1]]
            x["parent"].append(torch.tensor([a for a, _ in edges], dtype=torch.long))
            x["child"].append(torch.tensor([b for _, b in edges], dtype=torch.long))
        return x

    def levels(self, x, train):
        e = self.words(x["words"])
        gates, forget = self.W(e).split(x["sizes"]), self.Wf(e).split(x["sizes"])
        hs, cs, ends = [], [], []
        for k, n in enumerate(x["sizes"]):
            if k == 0:
                h, c = cell(gates[0], None)
            else:
                total, child = h[:n], x["child"][k]
                kept = torch.sigmoid(forget[k] + self.Uf(total)) * c[:n]
                if len(child):
                    parent = x["parent"][k]
                    more_h, more_c = (torch.cat(s[k - 4 : k - 1]).index_select(0, child) for s in (hs, cs))
                    kept = kept.index_add(0, parent, torch.sigmoid(forget[k].index_select(0, parent) + self.Uf(more_h)) * more_c)
                    total = total.index_add(0, parent, more_h)
                h, c = cell(gates[k] + self.U(total), kept)
            hs.append(h)
            cs.append(c)
            going = x["sizes"][k + 1] if k + 1 < len(x["sizes"]) else 0
            if going < n:
                ends.append(h[going:])
        y = self.head(torch.cat(ends))
        return F.cross_entropy(y, x["labels"], reduction="sum") if train else y

    def in_order(self, x, y):
        return y[sorted(range(len(y)), key=lambda r: x["order"][r])]

    def units(self, data):
        return sum(len(c) for c, _ in data)
