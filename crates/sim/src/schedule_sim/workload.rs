//! What is simulated: a schedule and the sizes of its blocks.

use treepie_schedule::{BlockLayouts, Schedule};

/// Block sizes. A message must be as long as the receive that it matches.
#[derive(Clone, Debug)]
pub enum BlockSizes {
    /// The same layouts for all ranks.
    Shared(BlockLayouts),
    /// Layouts of each rank.
    PerRank(Vec<BlockLayouts>),
}

impl BlockSizes {
    /// The layouts of a rank.
    #[inline]
    pub fn layouts(&self, rank: u32) -> &BlockLayouts {
        match self {
            BlockSizes::Shared(layouts) => layouts,
            BlockSizes::PerRank(layouts) => &layouts[rank as usize],
        }
    }
}

/// What to simulate: a schedule with its block sizes.
#[derive(Clone, Copy)]
pub struct Workload<'a> {
    /// The schedule.
    pub schedule: &'a dyn Schedule,
    /// Its block sizes in elements.
    pub sizes: &'a BlockSizes,
    /// Bytes per element.
    pub element: u64,
}
