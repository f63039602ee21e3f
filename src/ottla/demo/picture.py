"""The picture: a heat map of airline by hour, and what weather adds. Comes from delays.py; page.py shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd

from ottla.demo.delays import HOURS, WEATHER, Delays
from ottla.demo.flights import SOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, QUIET = "#222222", "#777777"
COLOURS = "YlOrRd"
DARKEST = 40.0
"""Minutes at which the scale ends: the few cells above it are as dark as it gets, and say their number."""


def draw(delays: Delays, path: Path) -> None:
    """Write the PNG."""
    mpl.use("agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(15, 8.6), dpi=110, facecolor="white")
    grid = figure.add_gridspec(
        3, 2, width_ratios=(3.7, 1), left=0.125, right=0.985, top=0.84, bottom=0.125, wspace=0.24, hspace=0.5
    )
    heat_map(figure.add_subplot(grid[:, 0]), delays)
    worst = max(delays.by_weather(*band).max() for band in WEATHER.values())
    for row, (title, (column, bands)) in enumerate(WEATHER.items()):
        axes = figure.add_subplot(grid[row, 1])
        axes.set_title(title, fontsize=11, weight="bold", color=INK, loc="left")
        weather_bars(axes, delays.by_weather(column, bands).fillna(0.0), worst)
    figure.text(0.74, 0.885, "By the weather in that hour", fontsize=12, color=QUIET)
    figure.text(0.02, 0.955, delays.finding(), fontsize=19, weight="bold", color=INK)
    flights = int(delays.answer["flights"].sum())
    figure.text(
        0.02, 0.915, f"Mean departure delay in minutes by airline and scheduled hour, {flights:,} flights from "
        "New York's three airports in 2013; airlines from least to most late", fontsize=12, color=QUIET,
    )  # fmt: skip
    figure.text(
        0.02, 0.02, f"Source: {SOURCE}. Early departures count as negative. {delays.cancelled():,} flights that never "
        "departed are left out. Empty: fewer than 20 departures.", fontsize=9, color=QUIET,
    )  # fmt: skip
    figure.savefig(path)
    pyplot.close(figure)


def heat_map(axes: Axes, delays: Delays) -> None:
    """Airlines down, hours across, then the whole day; all airlines together at the foot."""
    by_hour = delays.by_airline_and_hour()
    names = list(by_hour.index)
    labels = [short(name) for name in names]
    cells = np.full((len(names) + 2, len(HOURS) + 2), np.nan)
    cells[: len(names), : len(HOURS)] = by_hour.to_numpy(dtype=float)
    cells[: len(names), -1] = delays.by_airline().reindex(names)
    cells[-1, : len(HOURS)] = delays.by_hour()
    cells[-1, -1] = delays.overall()
    colours = mpl.colormaps[COLOURS]
    axes.imshow(np.ma.masked_invalid(cells), cmap=colours, vmin=0, vmax=DARKEST, aspect="auto")
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            summed = row == len(names) + 1 or column == len(HOURS) + 1
            axes.text(
                column, row, f"{value:.0f}".replace("-0", "0"), ha="center", va="center", fontsize=9.5,
                color="white" if value > 0.62 * DARKEST else INK, weight="bold" if summed else "normal",
            )  # fmt: skip
    axes.set_yticks([*range(len(names)), len(names) + 1], [*labels, "All airlines"], fontsize=11, color=INK)
    axes.set_xticks(
        [*range(len(HOURS)), len(HOURS) + 1], [*(f"{hour}" for hour in HOURS), "all\nday"], fontsize=11, color=INK
    )
    axes.set_xlabel("Scheduled hour of departure (local time, 24 h)", fontsize=11, color=QUIET, labelpad=2)
    axes.set_xticks(np.arange(-0.5, cells.shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, cells.shape[0]), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def short(airline: str) -> str:
    """An airline's name without its legal form."""
    for ending in (" Inc.", " Co.", " Corporation"):
        airline = airline.removesuffix(ending)
    return airline


def weather_bars(axes: Axes, means: pd.Series, worst: float) -> None:
    """One kind of weather: the mean delay for each band, all on one scale."""
    colours = mpl.colormaps[COLOURS]
    places = np.arange(len(means))
    axes.barh(places, means, color=[colours(min(value / DARKEST, 1.0)) for value in means], height=0.72)
    for place, value in zip(places, means, strict=True):
        axes.text(value + worst * 0.02, float(place), f"{value:.0f} min", va="center", fontsize=10, color=INK)
    axes.set_yticks(places, list(means.index), fontsize=10, color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, worst * 1.22)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(QUIET)
