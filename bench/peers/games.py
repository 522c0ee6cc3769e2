"""Games: the learning step of PPO with an LSTM over segments of steps, in which games end anywhere and begin again."""
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence
from common import Net, linear_of, lstm_of
from sequences import packing


class Ppo(Net):
    """packed, padded: a segment is cut where a game ends, and nn.LSTM runs over all pieces. masks: nn.LSTM runs a step of all
    segments at a time, and a mask makes the states of games that begin zeros. The rest is computed for all steps at once."""
    unit, optimiser, hows = "steps", torch.optim.Adam, ("packed", "padded", "masks")
    clip, value_share, entropy_share = 0.2, 0.5, 0.01

    def __init__(self, o):
        self.o = o
        self.encoder, self.rnn = torch.nn.Linear(o.input, o.hidden), torch.nn.LSTM(o.hidden, o.hidden)
        self.actor, self.critic = torch.nn.Linear(o.hidden, o.classes), torch.nn.Linear(o.hidden, 1)

    def weights(self, t):
        pairs = linear_of(self.encoder, t, "player.encoder.0") + lstm_of(self.rnn, t, "player.memory")
        return pairs + linear_of(self.actor, t, "player.actor") + linear_of(self.critic, t, "player.critic")

    @staticmethod
    def batch(random, o):
        """Of a sample: moves, ends, observations, advantages, targets, old log-probabilities and the first state."""
        index = []
        for _ in range(o.batch):
            moves = [random.below(o.classes) for _ in range(o.max)]
            index.append((moves, [random.below(o.min) == 0 for _ in range(o.max)]))
        values = random.values(o.batch * (o.max * (o.input + 3) + 2 * o.hidden)).view(o.batch, -1)
        return [(*index[i], values[i]) for i in range(o.batch)]

    def prepare(self, data):
        o, n = self.o, len(data)
        values = torch.stack([v for _, _, v in data])
        senses, advantage, target, old, h, c = values.split([o.max * o.input, o.max, o.max, o.max, o.hidden, o.hidden], 1)
        if o.how == "masks":
            x = {"rows": [(i, t) for t in range(o.max) for i in range(n)], "h": h.unsqueeze(0), "c": c.unsqueeze(0)}
            ends = torch.tensor([e for _, e, _ in data])
            x["going"] = (~ends).float().t().reshape(o.max, 1, n, 1)
            x["ends"] = ends.any(0).tolist()
        else:
            pieces = []
            for i, (_, ends, _) in enumerate(data):
                begin = 0
                for t in range(o.max):
                    if ends[t] or t == o.max - 1:
                        pieces.append((i, begin, t + 1 - begin))
                        begin = t + 1
            pieces.sort(key=lambda piece: -piece[2])
            _, rows, x_sizes = packing([length for _, _, length in pieces])
            going = torch.tensor([[float(begin == 0)] for _, begin, _ in pieces])
            of = torch.tensor([i for i, _, _ in pieces])
            x = {"rows": [(pieces[p][0], pieces[p][1] + k) for p, k in rows], "sizes": x_sizes, "h": (h[of] * going).unsqueeze(0),
                 "c": (c[of] * going).unsqueeze(0), "count": len(pieces)}
            x["place"] = torch.tensor([k * len(pieces) + p for p, k in rows])
        at = torch.tensor([i * o.max + t for i, t in x["rows"]])
        x["senses"] = senses.reshape(-1, o.input)[at]
        x["advantage"], x["target"], x["old"] = advantage.reshape(-1)[at], target.reshape(-1)[at], old.reshape(-1)[at] - 2
        x["moves"] = torch.tensor([moves for moves, _, _ in data]).view(-1, 1)[at]
        if o.how == "padded":
            padded = torch.zeros(len(x["sizes"]) * x["count"], o.input)
            padded[x["place"]] = x["senses"]
            x["senses"] = padded.view(len(x["sizes"]), x["count"], o.input)
        return x

    def outputs(self, x):
        """The LSTM's, in the order of x["rows"]."""
        o, e = self.o, torch.tanh(self.encoder(x["senses"]))
        if o.how == "packed":
            return self.rnn(PackedSequence(e, x["sizes"]), (x["h"], x["c"]))[0].data
        if o.how == "padded":
            return self.rnn(e, (x["h"], x["c"]))[0].reshape(-1, o.hidden).index_select(0, x["place"])
        e, state, out = e.view(o.max, 1, -1, o.hidden), (x["h"], x["c"]), []
        for t in range(o.max):
            y, state = self.rnn(e[t], state)
            out.append(y)
            if x["ends"][t]:
                state = (state[0] * x["going"][t], state[1] * x["going"][t])
        return torch.cat(out).view(-1, o.hidden)

    def levels(self, x, train):
        h = self.outputs(x)
        logits, value = self.actor(h), self.critic(h).squeeze(1)
        if not train:
            return logits, value
        log = F.log_softmax(logits, 1)
        ratio, advantage = torch.exp(log.gather(1, x["moves"]).squeeze(1) - x["old"]), x["advantage"]
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - self.clip, 1 + self.clip) * advantage).sum()
        entropy = -(log.exp() * log).sum()
        error = (value - x["target"]).square().sum()
        return (self.value_share * error - gain - self.entropy_share * entropy) / self.o.max

    def in_order(self, x, y):
        order = torch.tensor(sorted(range(len(x["rows"])), key=lambda r: x["rows"][r]))
        logits, value = (part[order].view(len(order) // self.o.max, -1) for part in y)
        return torch.cat([logits, value], 1)

    def units(self, data):
        return self.o.max * len(data)


class PpoMlp(Ppo):
    """The same without a memory: all steps are rows."""
    hows = ("rows",)

    def __init__(self, o):
        self.o = o
        self.encoder = torch.nn.Linear(o.input, o.hidden)
        self.actor, self.critic = torch.nn.Linear(o.hidden, o.classes), torch.nn.Linear(o.hidden, 1)

    def weights(self, t):
        return linear_of(self.encoder, t, "player.encoder.0") + linear_of(self.actor, t, "player.actor") + linear_of(self.critic, t, "player.critic")

    def prepare(self, data):
        o, n = self.o, len(data)
        values = torch.stack([v for _, _, v in data])
        senses, advantage, target, old, _, _ = values.split([o.max * o.input, o.max, o.max, o.max, o.hidden, o.hidden], 1)
        return {"rows": [(i, t) for i in range(n) for t in range(o.max)], "senses": senses.reshape(-1, o.input), "advantage": advantage.reshape(-1),
                "target": target.reshape(-1), "old": old.reshape(-1) - 2, "moves": torch.tensor([moves for moves, _, _ in data]).view(-1, 1)}

    def outputs(self, x):
        return torch.tanh(self.encoder(x["senses"]))
