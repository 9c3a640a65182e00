"""The log cleaner of a broker: which logs are cleaned when, by whom, and the end of each round.

In it: `log_cleaner.LogCleaner`, a part of the upkeep; `cleaning_round`, one round with its swaps;
the settings (`cleaner_settings`) and the counts for metrics (`cleaner_counts`).
Not in it: the round itself (storage/cleaner), which a session runs off the step thread: in a
process of its own (node/records), or inline (`storage.cleaner.session.InlineSession`).
"""
