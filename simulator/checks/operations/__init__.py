"""Operations of simulated clients against the log, and their histories."""
