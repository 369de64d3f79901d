//! Placement lookup: each rank of a group that shares a sorted table learns the position of its entry: its new
//! communicator, its rank there and the size.
//!
//! Each rank sends a request with its entry to all holders of a part of the table. The request of a holder goes to all
//! ranks, and also has its number of rows and the first and last run of one color. The holder of an entry replies. Runs
//! of a color that span several parts are concatenated from the requests. Two steps, at most p messages per rank in
//! each.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use treepie_base::{Bytes, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::affine_ranks::AffineRanks;
use super::entry::{Piggyback, SplitEntry, elementwise_max};
use super::record::{read, refused, write};

/// The run of one color at an end of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct EdgeRun {
    /// The [`SplitEntry::group_key`] of the run.
    group: u64,
    affine: AffineRanks,
}

/// The message of each rank to all holders, and of each holder to all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct LookupRequest {
    /// The entry to look up.
    entry: SplitEntry,
    /// All ranks learn the elementwise maximum.
    piggyback: Piggyback,
    /// Number of rows that the sender holds.
    rows: u64,
    first: EdgeRun,
    last: EdgeRun,
}

impl LookupRequest {
    fn new(entry: SplitEntry, piggyback: Piggyback, rows: &[SplitEntry]) -> Self {
        let edge = |entry: Option<&SplitEntry>| {
            let group = entry.map(SplitEntry::group_key);
            group.map_or(EdgeRun::default(), |group| EdgeRun {
                group,
                affine: AffineRanks::from_rows(&rows[color_run(rows, group)]),
            })
        };
        let (first, last) = (edge(rows.first()), edge(rows.last()));
        Self { entry, piggyback, rows: rows.len() as u64, first, last }
    }
}

/// The position of a rank in the sorted table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SplitPlacement {
    /// The row of the first rank of its communicator.
    pub start: u32,
    /// Size of the communicator.
    pub size: u32,
    /// The rank in the communicator.
    pub rank: u32,
}

/// The reply of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct LookupReply {
    /// All ranks of the communicator.
    affine: AffineRanks,
    placement: SplitPlacement,
    unused: u32,
}

/// The rows of one color.
fn color_run(rows: &[SplitEntry], group: u64) -> Range<usize> {
    let start = rows.partition_point(|row| row.group_key() < group);
    start..start + rows[start..].partition_point(|row| row.group_key() == group)
}

/// The result of a lookup.
pub(super) struct LookupResult {
    /// The placement and the ranks of the new communicator, if the rank has a color.
    pub(super) placement: Option<(SplitPlacement, AffineRanks)>,
    /// The first row of the part of each holder, and the total number of rows.
    pub(super) starts: Vec<u32>,
    /// The elementwise maximum of the piggybacks.
    pub(super) piggyback: Piggyback,
    /// The rows of this rank.
    pub(super) rows: Vec<SplitEntry>,
}

const REQUEST_TAG: u32 = 0;
const REPLY_TAG: u32 = 1;

/// The lookup on one rank, which is an index in its group. Indices below `holders` hold parts of the table.
pub(super) struct PlacementLookup {
    index: u32,
    holders: u32,
    entry: SplitEntry,
    rows: Vec<SplitEntry>,
    requests: Vec<Option<LookupRequest>>,
    reply: Option<LookupReply>,
    has_replied: bool,
    outgoing: VecDeque<Transmit>,
}

impl PlacementLookup {
    /// Starts the lookup. A rank that holds no part has no rows.
    pub(super) fn new(
        index: u32,
        (holders, readers): (u32, u32),
        entry: SplitEntry,
        rows: Vec<SplitEntry>,
        piggyback: Piggyback,
    ) -> Self {
        let request = LookupRequest::new(entry, piggyback, &rows);
        let is_holder = index < holders;
        // Ranks that hold no part exchange no messages with each other.
        let mut requests = vec![None; readers as usize];
        if !is_holder {
            requests[holders as usize..].fill(Some(LookupRequest::default()));
        }
        requests[index as usize] = Some(request);
        let mut this =
            Self { index, holders, entry, rows, requests, reply: None, has_replied: false, outgoing: VecDeque::new() };
        let receivers = if is_holder { readers } else { holders };
        for i in 1..=receivers {
            let to = (index + i) % receivers;
            if to != index {
                this.outgoing.push_back(Transmit::new(to, REQUEST_TAG, write(&request)));
            }
        }
        this.send_replies();
        this
    }

    /// Replies to the ranks whose entries are here, once all requests have arrived.
    fn send_replies(&mut self) {
        if self.has_replied || self.requests.contains(&None) {
            return;
        }
        self.has_replied = true;
        // Many look up entries of the same color.
        let mut known: Vec<(u64, LookupReply)> = Vec::new();
        for index in 0..self.requests.len() as u32 {
            let entry = self.request(index).entry;
            if self.index >= self.holders || !entry.has_color() {
                continue;
            }
            if let Ok(row) = self.rows.binary_search(&entry) {
                let group = entry.group_key();
                let first = match known.iter().find(|(known, _)| *known == group) {
                    Some((_, reply)) => *reply,
                    None => {
                        known.push((group, self.first_placement(group)));
                        known[known.len() - 1].1
                    }
                };
                let rank = (self.before() + row as u64) as u32 - first.placement.start;
                let reply = LookupReply { placement: SplitPlacement { rank, ..first.placement }, ..first };
                if index == self.index {
                    self.reply = Some(reply);
                } else {
                    self.outgoing.push_back(Transmit::new(index, REPLY_TAG, write(&reply)));
                }
            }
        }
    }

    /// Number of rows before those of this rank.
    fn before(&self) -> u64 {
        (0..self.index).map(|index| self.request(index).rows).sum()
    }

    fn request(&self, index: u32) -> LookupRequest {
        self.requests[index as usize].unwrap_or_default()
    }

    /// The reply for the first rank of a color that has rows on this rank.
    fn first_placement(&self, group: u64) -> LookupReply {
        let run = color_run(&self.rows, group);
        let mut affine = AffineRanks::from_rows(&self.rows[run.clone()]);
        let mut start = self.before() + run.start as u64;
        // The run may begin in earlier parts, and continue in later ones.
        if run.start == 0 {
            for LookupRequest { rows, last, .. } in (0..self.index).rev().map(|index| self.request(index)) {
                if rows > 0 && last.group != group {
                    break;
                }
                start -= u64::from(last.affine.ranks());
                affine = last.affine.concat(affine);
                if u64::from(last.affine.ranks()) < rows {
                    break;
                }
            }
        }
        if run.end == self.rows.len() {
            for LookupRequest { rows, first, .. } in (self.index + 1..self.holders).map(|index| self.request(index)) {
                if rows > 0 && first.group != group {
                    break;
                }
                affine = affine.concat(first.affine);
                if u64::from(first.affine.ranks()) < rows {
                    break;
                }
            }
        }
        let placement = SplitPlacement { start: start as u32, size: affine.ranks(), rank: 0 };
        LookupReply { affine, placement, ..LookupReply::default() }
    }

    /// The result, once it is done.
    pub(super) fn finish(self) -> LookupResult {
        let mut starts = vec![0];
        let rows = (0..self.holders).map(|index| self.request(index).rows as u32);
        starts.extend(rows.scan(0, |before, rows| {
            *before += rows;
            Some(*before)
        }));
        let piggyback = (0..self.holders)
            .fold(Piggyback::default(), |piggyback, index| elementwise_max(piggyback, self.request(index).piggyback));
        let placement = self.reply.map(|reply| (reply.placement, reply.affine));
        LookupResult { placement, starts, piggyback, rows: self.rows }
    }
}

impl Reactor for PlacementLookup {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match tag {
            REQUEST_TAG => self.requests[from as usize] = Some(read(&bytes)?),
            REPLY_TAG => self.reply = Some(read(&bytes)?),
            _ => return Err(refused(bytes.as_slice().len(), 0)),
        }
        self.send_replies();
        Ok(())
    }

    fn dependency_on(&self, from: u32) -> PeerDependency {
        let is_missing = self.requests[from as usize].is_none();
        if is_missing { PeerDependency::Required } else { PeerDependency::Nothing }
    }

    fn is_done(&self) -> bool {
        self.has_replied && (self.reply.is_some() || !self.entry.has_color())
    }
}
