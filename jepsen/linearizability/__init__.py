"""Is a history of concurrent operations linearizable? A checker that knows nothing of the project.

`check(history, model, budget=...)` gives a `Result`; `read_history(path)` reads a history in any
of the known formats; `explain(history, model)` finds a minimal counterexample.
"""
