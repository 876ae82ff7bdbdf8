"""Simulator in, validated emulator out: sequential designs for stochastic simulators. A leaf package.

`loop` has `emulate`, `campaign` its ask-and-tell form; `sources` and `executors` make the runs; `log` keeps the state
on disk; `beliefs` and `scores` say where the next runs help. No models live here: any estimator of the library will do.
"""

from dtmgp.emulation.assessment import Target, ValidationReport, assess
from dtmgp.emulation.beliefs import Belief, belief_of, kriging_belief, model_belief, replicate_noise
from dtmgp.emulation.campaign import Campaign
from dtmgp.emulation.executors import execute, make_runs
from dtmgp.emulation.loop import Emulation, emulate
from dtmgp.emulation.record import RunTable
from dtmgp.emulation.runs import Outcome, Purpose, Run, run_seed
from dtmgp.emulation.scaled import scaled_belief
from dtmgp.emulation.scores import ALC, ALM, SCORES, LawError, Score, choose
from dtmgp.emulation.shell import Form, ShellCommand
from dtmgp.emulation.sources import FunctionSource, ImportedSource, ProtocolSource, Source, as_source
from dtmgp.executors import Executor, JoblibExecutor, SerialExecutor

__all__ = [
    "emulate",
    "Emulation",
    "Campaign",
    "Target",
    "ValidationReport",
    "assess",
    "ALM",
    "ALC",
    "LawError",
    "SCORES",
    "Score",
    "choose",
    "Belief",
    "belief_of",
    "model_belief",
    "kriging_belief",
    "scaled_belief",
    "replicate_noise",
    "Run",
    "Outcome",
    "Purpose",
    "RunTable",
    "run_seed",
    "Source",
    "FunctionSource",
    "ProtocolSource",
    "ImportedSource",
    "ShellCommand",
    "Form",
    "as_source",
    "Executor",
    "SerialExecutor",
    "JoblibExecutor",
    "execute",
    "make_runs",
]
