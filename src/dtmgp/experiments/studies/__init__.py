"""The paper's two simulation studies, with all its models and ours.

Lives here: problems, contestants, scores, the log of rows, the runner, and the tables made of the rows.
May not live here: models, simulators and metrics, which have packages of their own.
"""
