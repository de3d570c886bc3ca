"""An external model as the analyzer of Stage 1: one HTTP call, the journal of paid answers, the budget, the key."""
