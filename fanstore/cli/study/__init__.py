"""The commands of `fanstore study`: they measure, simulate and plan jobs."""

from fanstore.cli.lazy_group import LazyGroup

command = LazyGroup(
    "study",
    {
        "A job": {
            "analyze": ("study.analyze", "Say where a job waits, and what would help."),
            "whatif": ("study.whatif", "Say how fast an analysed job would be elsewhere."),
        },
        "A machine": {
            "calibrate": ("study.calibrate", "Measure this machine, for simulate and plan."),
            "simulate": ("study.simulate", "Say how long a job would take, under each policy."),
            "plan": ("study.plan", "Plan what each node keeps and fetches in a job."),
        },
    },
    help="Find out where a job waits, and how fast it would be with other means.",
)
