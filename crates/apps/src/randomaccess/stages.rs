//! The stages of an all-to-all by lists: in each stage a rank divides its list into bins, keeps one, and sends the others.
//!
//! | algorithm | stages | bins of a stage |
//! |---|---|---|
//! | 1d | 1 | a rank each |
//! | d-dimensional grid | d | the planes of the grid, across its dimension |
//! | hypercube | log2 P | two: a bit of the owner |
//! | halving, any P | log2 P, rounded up | two: the halves of the rank's part of all ranks |

use std::ops::Range;

use treepie_comm::dims_create;
use treepie_model::randomaccess::partition_partners;

use super::partition::Partition;

/// A stage on one rank.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) bins: Bins,
    /// The bin that it keeps.
    pub(super) own: usize,
    /// The messages for each bin; none for the own one.
    pub(super) to: Vec<Vec<ListPart>>,
    /// The ranks that it receives from.
    pub(super) from: Vec<u32>,
}

/// A message of a stage: a part of the list of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ListPart {
    pub(super) to: u32,
    /// The fraction of the list at which the part ends; it begins where the one before ends.
    end: f64,
}

impl ListPart {
    /// The end of the part in a list.
    pub(super) fn end(self, list: usize) -> usize {
        (self.end * list as f64).round() as usize
    }
}

/// Which bin a datum belongs to.
#[derive(Clone, Debug)]
pub(super) enum Bins {
    /// Two: indices below and from a limit on.
    Halves { middle: u64 },
    /// By bits of the datum.
    Bits { shift: u32, mask: u64 },
    /// By a table of owners.
    Owners(Box<[u32]>),
}

/// The sides of a grid of all ranks that are about equal.
pub(super) fn equal_sides(ranks: u32, dimensions: u32) -> Vec<u32> {
    dims_create(ranks as usize, dimensions as usize).into_iter().map(|side| side as u32).collect()
}

/// Stages on a grid with these sides, of a rank. The side that varies slowest comes first.   [paper, figure 1]
pub(super) fn grid(sides: &[u32], partition: Partition, rank: u32) -> Vec<Stage> {
    assert_eq!(sides.iter().product::<u32>(), partition.ranks(), "a grid of all ranks");
    let mut stride = partition.ranks();
    let mut stages = Vec::new();
    for &side in sides {
        stride /= side;
        if side > 1 {
            stages.push(across(side, stride, partition, rank));
        }
    }
    stages
}

/// The stage across a dimension: among the ranks that differ from this one only in it.
fn across(side: u32, stride: u32, partition: Partition, rank: u32) -> Stage {
    let coordinate = |rank: u32| rank / stride % side;
    let at = |other: u32| rank - coordinate(rank) * stride + other * stride;
    let bins = match partition.owner_shift() {
        Some(shift) => Bins::Bits { shift: shift + stride.ilog2(), mask: u64::from(side) - 1 },
        None => Bins::Owners((0..partition.ranks()).map(coordinate).collect()),
    };
    let own = coordinate(rank);
    // In the order in which they send to this rank.
    let from = (1..side).map(|distance| at((own + side - distance) % side)).collect();
    let parts = |bin: u32| if bin == own { Vec::new() } else { vec![ListPart { to: at(bin), end: 1.0 }] };
    Stage { bins, own: own as usize, to: (0..side).map(parts).collect(), from }
}

/// The stages of recursive halving, for any number of ranks.   [paper, section 2]
pub(super) fn halving(partition: Partition, rank: u32) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut ranks: Range<u32> = 0..partition.ranks();
    while ranks.len() > 1 {
        let size = ranks.end - ranks.start;
        let middle = ranks.start + size / 2;
        let mut end = 0.0;
        let parts: Vec<ListPart> = partition_partners(size, rank - ranks.start)
            .map(|message| {
                end += message.share;
                ListPart { to: ranks.start + message.to, end }
            })
            .collect();
        let from = parts.iter().map(|part| part.to).collect();
        let own = usize::from(rank >= middle);
        let to = if own == 0 { vec![Vec::new(), parts] } else { vec![parts, Vec::new()] };
        stages.push(Stage { bins: Bins::Halves { middle: partition.first(middle) }, own, to, from });
        ranks = if own == 0 { ranks.start..middle } else { middle..ranks.end };
    }
    stages
}

/// The bins of a list, one after the other in memory that is reused.
///
/// Data is stored word by word: a look-ahead of 1,024 takes 8 KB, which stays in the first cache, so that writing whole lines
/// by way of buffers would only add copies.
#[derive(Default)]
pub(super) struct Binned {
    data: Vec<u64>,
    /// Where each bin ends.
    ends: Vec<usize>,
}

impl Binned {
    /// Divides all data of the lists; `len` is their total length.
    pub(super) fn divide<'a>(
        &mut self,
        lists: impl Iterator<Item = &'a [u64]> + Clone,
        len: usize,
        stage: &Stage,
        partition: &Partition,
    ) {
        // The memory only grows: what it had is overwritten. Lists of later rounds are a little longer or shorter.
        if self.data.len() < len {
            self.data.resize(len + len / 8, 0);
        }
        let bins = stage.to.len();
        match &stage.bins {
            Bins::Halves { middle } => self.split(lists, len, |datum| partition.index(datum) >= *middle),
            Bins::Bits { shift, mask: 1 } => self.split(lists, len, |datum| datum >> shift & 1 == 1),
            Bins::Bits { shift, mask } => self.sort(lists, bins, |datum| (datum >> shift & mask) as usize),
            Bins::Owners(bin_of) => {
                self.sort(lists, bins, |datum| bin_of[partition.owner(partition.index(datum)) as usize] as usize);
            }
        }
    }

    /// All bins are empty.
    pub(super) fn clear(&mut self, stage: &Stage) {
        self.ends.clear();
        self.ends.resize(stage.to.len(), 0);
    }

    /// Two bins: the first from the front, the second from the back. No branch depends on the data.
    #[inline(always)]
    fn split<'a>(&mut self, lists: impl Iterator<Item = &'a [u64]>, len: usize, is_second: impl Fn(u64) -> bool) {
        let data = &mut self.data[..len];
        let (mut front, mut back) = (0, len);
        for list in lists {
            for &datum in list {
                let second = usize::from(is_second(datum));
                back -= second;
                data[if second == 1 { back } else { front }] = datum;
                front += 1 - second;
            }
        }
        self.ends.clear();
        self.ends.extend([front, len]);
    }

    /// A counting sort.
    #[inline(always)]
    fn sort<'a>(&mut self, lists: impl Iterator<Item = &'a [u64]> + Clone, bins: usize, bin_of: impl Fn(u64) -> usize) {
        self.ends.clear();
        self.ends.resize(bins, 0);
        lists.clone().flatten().for_each(|datum| self.ends[bin_of(*datum)] += 1);
        let mut begin = 0;
        for end in &mut self.ends {
            begin += std::mem::replace(end, begin);
        }
        // `ends` are the beginnings until a bin has its data.
        for list in lists {
            for &datum in list {
                let at = &mut self.ends[bin_of(datum)];
                self.data[*at] = datum;
                *at += 1;
            }
        }
    }

    /// The data of all bins.
    pub(super) fn all(&self) -> &[u64] {
        &self.data[..self.ends.last().copied().unwrap_or_default()]
    }

    /// The data of a bin.
    pub(super) fn bin(&self, bin: usize) -> &[u64] {
        let begin = bin.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.data[begin..self.ends[bin]]
    }
}
