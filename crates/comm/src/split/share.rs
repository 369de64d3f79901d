//! Tables that ranks share after a split: who puts which part where.

use treepie_base::Result;

use super::blocks::Group;
use super::finding::Place;
use super::ways::Way;
use crate::comm::Comm;
use crate::members::{Layout, Piece, Reach, Window, row_to_tell};

/// What a rank has of the table.
pub(super) struct Own {
    pub(super) group: Group,
    /// Ranks of the world, row after row.
    pub(super) rows: Vec<u32>,
    /// Those who have the parts of the group, as ranks of the communicator that was split.
    pub(super) holders: Vec<u32>,
}

impl Comm {
    /// How the table lies in memory, if it is shared and all ranks can map the same.
    pub(super) fn layout_to_share(&self, way: Way) -> Option<Layout> {
        let mut endpoint = self.endpoint();
        let is_possible = way.shares() && endpoint.fabric().shared().is_some();
        let (world, ranks) = (endpoint.size(), self.size() as u32);
        is_possible.then(|| Layout { world, ranks, rows: way.most_rows(ranks) })
    }

    pub(super) fn set_aside(&self, layout: Layout) -> Result<u64> {
        self.endpoint().fabric().shared().expect("there is a layout").reserve(layout.bytes())
    }

    /// Puts the own part into memory that all ranks map.
    pub(super) fn share_in_memory(&self, layout: Layout, at: u64, part: Own, place: Option<Place>) -> Result<Reach> {
        let mut endpoint = self.endpoint();
        let own = endpoint.rank();
        let memory = endpoint.fabric().shared().expect("there is a layout").map(at, layout.bytes())?;
        let piece = Piece { memory, layout, at, group: part.group, parent: self.inner.members.clone() };
        piece.publish(self.rank() as u32, &part.rows, own, place.map(|place| place.start + place.rank));
        Ok(Reach::Memory(piece))
    }

    /// Keeps the own part, and answers those who ask.
    pub(super) fn share_by_records(&self, context: u32, part: Own, place: Option<Place>) -> Result<Reach> {
        let holders: Result<Box<[u32]>> = part.holders.iter().map(|rank| self.world_rank(*rank as usize)).collect();
        let holders = holders?;
        let mut cells = vec![row_to_tell(place.map(|place| place.start + place.rank)) as u32];
        cells.extend(part.rows);
        let bytes = bytemuck::cast_slice(&cells).to_vec();
        let (window, rank) = (context + 2, self.rank() as u32);
        let reach = Window { window, holders, parent: self.inner.members.clone(), rank, bytes: bytes.len() };
        self.endpoint().window_make_table(window, bytes);
        Ok(Reach::Records(reach))
    }
}
