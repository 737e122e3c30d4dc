"""The commands of `fanstore study`: they measure and simulate jobs."""

from fanstore.cli.lazy_group import LazyGroup

command = LazyGroup(
    "study",
    {
        "A job": {
            "analyze": ("study.analyze", "Say where a job waits, and what would help."),
            "whatif": ("study.whatif", "Say how fast an analysed job would be elsewhere."),
        },
        "A machine": {
            "calibrate": ("study.calibrate", "Measure this machine, for simulate."),
            "simulate": ("study.simulate", "Say how long a job would take, under each policy."),
        },
    },
    help="Find out where a job waits, and how fast it would be with other means.",
)
