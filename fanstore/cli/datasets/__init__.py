"""Commands that make datasets and look at them. The rare ones are those of `fanstore dataset`."""

from fanstore.cli.lazy_group import LazyGroup

command = LazyGroup(
    "dataset",
    {
        "Commands": {
            "rebuild-index": (
                "datasets.rebuild_index",
                "Make the index of a dataset again from its packs.",
            ),
            "import-table3": (
                "datasets.import_table3",
                "Make a dataset from partitions in the Table 3 layout.",
            ),
            "export-table3": (
                "datasets.export_table3",
                "Write a dataset as partitions in the Table 3 layout.",
            ),
        }
    },
    help="Rebuild an index; import and export the Table 3 layout of the FanStore paper.",
)
