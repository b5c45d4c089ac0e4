"""How often what goes wrong: each seed has a mixture of its own, in which some things never happen and some often do.

A mixture in which everything happens a little finds less: faults hide each other. So every kind of fault is switched on
by chance, and then gets a rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

from simulation.listing import LATER_PAGE_FAULTS, LIST_FAULTS, WHOLE_LIST_FAULTS

REQUEST_FAULTS = (
    "answer 409",
    "answer 429",
    "answer 500",
    "answer 503",
    "cut before",
    "cut after",
    "timeout, not done",
    "timeout, done",
    "slow request",
)
EVENT_FAULTS = ("event dropped", "event doubled", "event late")
EXTENDER_FAULTS = ("extender fails", "extender slow")
STAGE_FAULTS = (
    "reserve refused",
    "permit refused",
    "permit rejected later",
    "permit waits shortly",
    "pre-bind fails",
    "pre-bind slow",
)
WATCH_LIST_FAULTS = ("watch begins with half a list", "watch begins with an empty list")
RATES = (0.01, 0.04, 0.15)
LIST_RATES = (0.05, 0.2)
LIST_LIKELIHOOD = 0.35  # there are a dozen ways in which a list fails
BIND_LIMITS = (1, 3, 64)
PAGES = (0, 0, 4, 12)  # objects in a page, 0 for as many as are wanted
STAGE_RATES = (0.05, 0.15, 0.4)
WATCH_RATES = {"watch cut": 0.8, "watch 410": 0.5, "relist from the past": 0.6}
LIKELIHOOD = 0.55  # of a kind of fault to be there at all
WATCH_LIKELIHOOD = 0.75  # higher, as a list from the past takes all three of them
WRITES = frozenset({"POST", "PATCH", "PUT", "DELETE"})


class Weather:
    """Draws faults; `calm` ends all of them."""

    def __init__(self, seed: object) -> None:
        self.random = Random(f"weather/{seed}")
        self.calm = False
        self.outage_until = 0.0
        self.counts: Counter[str] = Counter()
        kinds = (*REQUEST_FAULTS, *EVENT_FAULTS, *EXTENDER_FAULTS)
        self.rates = {kind: self.random.choice(RATES) for kind in kinds if self.random.random() < LIKELIHOOD}
        self.rates |= {kind: rate for kind, rate in WATCH_RATES.items() if self.random.random() < WATCH_LIKELIHOOD}
        self.rates |= {
            kind: self.random.choice(STAGE_RATES) for kind in STAGE_FAULTS if self.random.random() < LIKELIHOOD
        }
        self.rates |= {
            kind: self.random.choice(LIST_RATES)
            for kind in (*LIST_FAULTS, *WATCH_LIST_FAULTS)
            if self.random.random() < LIST_LIKELIHOOD
        }
        self.bulk = Random(f"bulk/{seed}").random() < 0.5
        """Whether lists and watches are read in bulk; otherwise objects come one by one, as from kopf."""
        self.page = self.random.choice(PAGES)
        self.bind_limit = self.random.choice(BIND_LIMITS)
        """How many binds may be under way at once. Rarely more than ten pods wait here, so it is lower than shipped."""
        self.rates["permit waits"] = 0.4
        self._latency_seconds = self.random.choice((0.002, 0.02, 0.2))

    def happens(self, kind: str, share: float = 1.0) -> bool:
        """Whether this kind of fault happens now, which has this share of its rate; counted if it does."""
        rate = share * self.rates.get(kind, 0.0)
        if self.calm or not rate or self.random.random() >= rate:
            return False
        self.counts[kind] += 1
        return True

    def on_request(self, method: str, *, is_bind: bool) -> str:
        """The fault of a request, "" for none. There is a conflict only about binds."""
        for kind in REQUEST_FAULTS:
            if kind == "answer 409" and not is_bind:
                continue
            if kind in ("cut after", "timeout, done") and method not in WRITES:
                continue
            if self.happens(kind):
                if is_bind and kind == "slow request":
                    self.counts["slow bind"] += 1
                return kind
        return ""

    def on_list(self, *, is_later_page: bool) -> str:
        """How a list, or a later page of one, is answered wrongly; "" where it is not."""
        kinds = LATER_PAGE_FAULTS if is_later_page else WHOLE_LIST_FAULTS
        return next((kind for kind in kinds if self.happens(kind)), "")

    def in_pages(self, query: Mapping[str, str]) -> Mapping[str, str]:
        """A server may give less than is asked for at once."""
        return {**query, "limit": str(self.page)} if self.page and not self.calm else query

    def latency_seconds(self) -> float:
        return self.random.uniform(0.0005, self._latency_seconds)

    def between(self, least: float, most: float) -> float:
        return self.random.uniform(least, most)

    def watch_lifetime_seconds(self, share: float = 1.0) -> float:
        if self.happens("watch cut", share):
            return self.between(0.5, 12.0)
        return self.between(200.0, 400.0)
