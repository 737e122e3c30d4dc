"""A dataset that a job serves, and the resources that the job holds for it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fanstore import _native
from fanstore.dataset import Dataset
from fanstore.errors import SHOWN_MAX
from fanstore.messages.figures import DatasetFigures, TracedDataset
from fanstore.node.prefix import Prefix, PrefixHold
from fanstore.staging.index import DatasetInfo
from fanstore.staging.run import StagedDataset
from fanstore.staging.staged import StagedDirectory


@dataclass
class ServedDataset:
    """A dataset of the job with its resources so far. outcome: None until it is staged."""

    info: DatasetInfo
    prefix: Prefix
    hold: PrefixHold
    staged: StagedDirectory | None
    outcome: StagedDataset | None = None

    @property
    def dataset(self) -> Dataset:
        """The dataset, opened through its staged index."""
        return self.staging.dataset

    @property
    def staging(self) -> StagedDataset:
        """The result of staging the dataset."""
        assert self.outcome is not None
        return self.outcome

    def damaged_names(self) -> list[str]:
        """Returns the names of damaged files, under the mount prefix; at most SHOWN_MAX."""
        damaged = self.staging.report.damaged
        ids = sorted(record for ids in damaged.values() for record in ids)[:SHOWN_MAX]
        return [os.fsdecode(self.dataset.relpath(record)) for record in ids]


def about_dataset(item: ServedDataset, rank: int) -> DatasetFigures:
    """Returns the figures of a dataset for `status`. rank: this rank."""
    report, shares, lib = item.staging.report, item.staging.shares, _native.lib
    staged = lib.FAN_PLACE_STAGED
    remote = [place for place in item.staging.places if place.state != staged]
    return DatasetFigures(
        name=item.info.name,
        directory=item.info.directory,
        dataset_id=item.info.dataset_id,
        mount_prefix=item.prefix.path,
        packs=item.dataset.pack_count,
        in_place=item.staged is None,
        replicas=item.staging.replicas,
        remote_packs=sum(1 for place in remote if place.replicas),
        copied_packs=report.copied_packs,
        copied_bytes=report.copied_bytes,
        received_packs=report.received_packs,
        received_bytes=report.received_bytes,
        reused_packs=report.reused_packs,
        shared_bytes=report.shared_bytes,
        share_bytes=0 if shares is None else shares.kept_bytes[rank],
        damaged_count=sum(len(ids) for ids in report.damaged.values()),
        damaged_files=item.damaged_names(),
    )


def traced_dataset(item: ServedDataset) -> TracedDataset:
    """Returns the facts about a dataset for a kept trace, with the ranks that have its packs."""
    shares = item.staging.shares
    return TracedDataset(
        name=item.info.name,
        directory=os.path.dirname(item.info.index_path),  # a listed directory has its own listing
        dataset_id=item.info.dataset_id,
        mount_prefix=item.prefix.path,
        pack_ranks=item.staging.staged_ranks,
        bounds=() if shares is None else shares.bounds,
    )
