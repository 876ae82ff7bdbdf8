"""The scoreboard of `quality.py`: problems, tasks, models, scores and bars; runs nothing itself."""
