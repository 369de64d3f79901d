//! Publication of the parts of a distributed rank table after a split.

use treepie_base::Result;

use super::algorithm::SplitAlgorithm;
use super::blocks::SorterGroup;
use super::placement::SplitPlacement;
use crate::comm::Comm;
use crate::members::{MappedTable, MappedTableLayout, RemoteTable, TableAccess, encode_row};

/// The part of the table on a rank.
pub(super) struct TablePartition {
    pub(super) group: SorterGroup,
    /// World ranks, row after row.
    pub(super) rows: Vec<u32>,
    /// The holders of the parts of the group, as ranks of the communicator that was split.
    pub(super) holders: Vec<u32>,
}

impl Comm {
    /// The layout of the table in memory, if it is distributed and all ranks can map the same memory.
    pub(super) fn mapped_table_layout(&self, algorithm: SplitAlgorithm) -> Option<MappedTableLayout> {
        let mut endpoint = self.endpoint();
        let is_possible = algorithm.shares_table() && endpoint.fabric().shared_heap().is_some();
        let (world, ranks) = (endpoint.size(), self.size() as u32);
        is_possible.then(|| MappedTableLayout { world, ranks, rows: algorithm.max_rows(ranks) })
    }

    pub(super) fn reserve_mapped_table(&self, layout: MappedTableLayout) -> Result<u64> {
        self.endpoint().fabric().shared_heap().expect("a layout requires a shared heap").reserve(layout.bytes())
    }

    /// Publishes this rank's part in memory that all ranks map.
    pub(super) fn publish_mapped(
        &self,
        layout: MappedTableLayout,
        at: u64,
        partition: TablePartition,
        placement: Option<SplitPlacement>,
    ) -> Result<TableAccess> {
        let mut endpoint = self.endpoint();
        let world_rank = endpoint.rank();
        let memory =
            endpoint.fabric().shared_heap().expect("a layout requires a shared heap").map(at, layout.bytes())?;
        let table = MappedTable { memory, layout, at, group: partition.group, parent: self.inner.members.clone() };
        table.publish(
            self.rank() as u32,
            &partition.rows,
            world_rank,
            placement.map(|placement| placement.start + placement.rank),
        );
        Ok(TableAccess::Mapped(table))
    }

    /// Keeps this rank's part in a window that others read.
    pub(super) fn publish_remote(
        &self,
        context: u32,
        partition: TablePartition,
        placement: Option<SplitPlacement>,
    ) -> Result<TableAccess> {
        let holders: Result<Box<[u32]>> =
            partition.holders.iter().map(|rank| self.world_rank(*rank as usize)).collect();
        let holders = holders?;
        let mut cells = vec![encode_row(placement.map(|placement| placement.start + placement.rank)) as u32];
        cells.extend(partition.rows);
        let bytes = bytemuck::cast_slice(&cells).to_vec();
        let (window, rank) = (context + 2, self.rank() as u32);
        let table = RemoteTable { window, holders, parent: self.inner.members.clone(), rank, bytes: bytes.len() };
        self.endpoint().window_create_read_only(window, bytes);
        Ok(TableAccess::Remote(table))
    }
}
