"""Training methods, one idea a file: ``make_algorithm(settings)`` builds the one that ``settings.name`` names."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from seedbed.algo.base import Algorithm
from seedbed.algo.grpo import Grpo, GrpoSettings
from seedbed.algo.seed import Seed, SeedSettings

#: The ``algo`` section of a config, told apart by its ``name``.
AlgoSettings = Annotated[GrpoSettings | SeedSettings, Field(discriminator="name")]


def make_algorithm(settings: GrpoSettings | SeedSettings) -> Algorithm:
    """The algorithm for the ``algo`` section of a config."""
    return Seed(settings) if isinstance(settings, SeedSettings) else Grpo(settings)


__all__ = ["AlgoSettings", "Algorithm", "GrpoSettings", "SeedSettings", "make_algorithm"]
