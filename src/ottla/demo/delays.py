"""The answer of the query: mean delays by airline, hour and weather, and the sentence that sums them up.

Comes from query.py, whose rows are one airline at one hour in one kind of weather; the next doors are picture.py,
page.py and the table in the terminal.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

HOURS = range(5, 24)
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

    def between(self, first: int, last: int) -> float:
        """The mean of departures scheduled in these hours."""
        chosen = self.answer[self.answer["hour"].between(first, last)]
        departed = int(chosen["departed"].sum())
        return float(chosen["minutes"].sum()) / departed if departed else float("nan")

    def cancelled(self) -> int:
        """Scheduled flights that never departed."""
        return int(self.answer["flights"].sum() - self.answer["departed"].sum())

    def finding(self) -> str:
        """The conclusion for a reader, in one sentence, from the figures themselves."""
        morning, evening = self.between(5, 8), self.between(19, 21)
        if evening < 1.5 * morning:
            return f"New York departures of 2013 left {self.overall():.0f} minutes late, at all hours alike"
        return (
            f"Fly before nine: departures leave {morning:.0f} minutes late early in the morning, "
            f"{evening:.0f} in the evening"
        )

    def _means(self, by: list[str]) -> pd.Series:
        sums = self.answer.groupby(by)[["minutes", "departed"]].sum()
        return (sums["minutes"] / sums["departed"]).where(sums["departed"] >= FEWEST)
