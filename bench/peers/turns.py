"""Rates of two or more sides that take turns. Others on the machine only make a turn slower, so a side's rate is the second
best of its turns, and there are turns until the best three of each side lie close together."""

AGREE, BEST = 1.08, 3  # the best turns of a side: the fastest to the slowest, and how many


class Tally:
    def __init__(self):
        self.rows = self.published = self.rounds = self.checked = self.wrong = 0
        self.error, self.least = 0.0, None

    def rounds_of(self, given, take):
        """Rounds by take, each a list with a rate of each side, until all sides are settled; and whether they are."""
        rounds, settled = [], False
        while len(rounds) < given.most and not settled:
            rounds.append(take())
            settled = len(rounds) >= given.rounds and all(is_settled(rates) for rates in zip(*rounds))
        self.rows += 1
        self.rounds += len(rounds)
        self.published += settled
        return rounds, settled

    def result(self, name):
        least = " least=%.2f at=%s" % self.least if self.least else ""
        return ("RESULT %s rows=%d published=%d rounds=%d checked=%d wrong=%d error=%.1e%s" %
                (name, self.rows, self.published, self.rounds, self.checked, self.wrong, self.error, least))


def is_settled(rates):
    best = sorted(rates)[-BEST:]
    return len(best) == BEST and best[-1] <= AGREE * best[0]


def rate_of(rates):
    return sorted(rates)[-2]
