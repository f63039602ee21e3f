"""The answer of the query: mean delays by airline, hour and weather, and the sentence that sums them up.

Comes from query.py, whose rows are one airline at one hour in one kind of weather; the next doors are picture.py,
page.py and the table in the terminal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

HOURS = range(5, 24)
BLOCKS = ((5, 9), (9, 13), (13, 17), (17, 21), (21, 24))
"""Times of day: the first hour, and the one behind the last."""
FEWEST = 20
"""A mean of fewer departures says nothing: its cell stays empty."""

WIND = ("under 10 mph", "10 to 20 mph", "20 to 30 mph", "over 30 mph")
VISIBILITY = ("10 miles", "5 to 10 miles", "2 to 5 miles", "under 2 miles")
RAIN = ("none", "under 0.05 in/h", "0.05 to 0.1 in/h", "over 0.1 in/h")
UNKNOWN = "unknown"
WEATHER = {"Wind": ("wind", WIND), "Visibility": ("visibility", VISIBILITY), "Rain or snow": ("rain", RAIN)}


@dataclass(frozen=True, slots=True)
class Delays:
    """Mean departure delays in minutes."""

    answer: pd.DataFrame
    """Columns airline, hour, wind, visibility, rain; flights, departed, minutes."""

    def by_airline_and_hour(self) -> pd.DataFrame:
        """A row for each airline, the least late first, a column for each hour; NaN where too few departed."""
        return self._means(["airline", "hour"]).unstack("hour").reindex(index=self.airlines(), columns=list(HOURS))

    def airlines(self) -> list[str]:
        """By overall delay, the least late first."""
        return list(self.by_airline().index)

    def by_airline(self) -> pd.Series:
        return self._means(["airline"]).sort_values()

    def by_airline_between(self, first: int, last: int) -> pd.Series:
        """The delays by airline of departures scheduled in these hours."""
        return Delays(self.answer[self.answer["hour"].between(first, last)]).by_airline()

    def by_hour(self) -> pd.Series:
        return self._means(["hour"]).reindex(list(HOURS))

    def by_weather(self, column: str, bands: tuple[str, ...]) -> pd.Series:
        return self._means([column]).reindex(list(bands))

    def flights(self, airline: str) -> int:
        """Scheduled departures."""
        return int(self.answer.loc[self.answer["airline"] == airline, "flights"].sum())

    def overall(self) -> float:
        return float(self.answer["minutes"].sum() / self.answer["departed"].sum())

    def by_block(self) -> list[float]:
        """The means of `BLOCKS`."""
        return [self.between(first, end - 1) for first, end in BLOCKS]

    def between(self, first: int, last: int) -> float:
        """The mean of departures scheduled in these hours."""
        chosen = self.answer[self.answer["hour"].between(first, last)]
        departed = int(chosen["departed"].sum())
        return float(chosen["minutes"].sum()) / departed if departed else float("nan")

    def cancelled(self) -> int:
        """Scheduled flights that never departed."""
        return int(self.answer["flights"].sum() - self.answer["departed"].sum())

    def finding(self) -> str:
        """The sentence that a reader should take away, with figures as the tables say them."""
        means = dict(zip(BLOCKS, self.by_block(), strict=True))
        first, end = worst = max(BLOCKS[1:], key=lambda block: (not math.isnan(means[block]), means[block]))
        morning = means[BLOCKS[0]]
        if not means[worst] >= 1.5 * morning:
            return f"New York departures of 2013 left {self.overall():.1f} minutes late, at all hours alike"
        return (
            f"Fly before nine: departures leave {morning:.1f} minutes late from 5 to 9 h, "
            f"{means[worst]:.1f} from {first} to {end} h"
        )

    def _means(self, by: list[str]) -> pd.Series:
        sums = self.answer.groupby(by)[["minutes", "departed"]].sum()
        return (sums["minutes"] / sums["departed"]).where(sums["departed"] >= FEWEST)
