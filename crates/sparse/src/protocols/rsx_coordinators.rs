//! RSX where clusters have coordinators: the counts of a cluster are summed on their way to its coordinator, those for
//! another cluster go there in one message, and its coordinator distributes them. A rank that has its count knows that
//! all ranks have stated theirs, so there is no fence, and no acknowledgement: over the wide area counts take one
//! latency, where counters by messages take two and the fence at least one. Data follows a rank's counts at once.
//!
//! Cost: T_B(P) + T_DT, with T_B that of the hierarchical barrier.   Memory: on a coordinator 8 bytes for each rank to
//! which its cluster sends, otherwise constant.   Any P.   [NBX paper 3.3 over the trees of P-LogP 3.4]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_collectives::hierarchy::Forest;
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct RsxOverCoordinators {
    buffers: ExchangeBuffers,
    forest: Arc<Forest>,
    rank: u32,
    /// Message counts by the virtual rank of the receiver, as far as this rank has them.
    counts: BTreeMap<u32, u32>,
    most_counts: usize,
    summary: TrafficSummary,
    stage: Stage,
    /// Children whose counts are missing.
    children: Vec<u32>,
    /// Other coordinators whose counts are missing, or the parent.
    others: Vec<u32>,
    /// Counts to send.
    outgoing: VecDeque<Transmit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Receives counts of its children.
    Up,
    /// Receives counts of its parent, or of the other coordinators.
    Down,
    /// Knows the number of its messages.
    Counted(u64),
}

/// What [`MessageKind::Count`] carries in its tag.
const FROM_CHILD: u32 = 0;
const FROM_OTHER: u32 = 1;

impl RsxOverCoordinators {
    pub(crate) fn new(rank: u32, forest: Arc<Forest>, buffers: ExchangeBuffers) -> Self {
        let position = forest.position(rank);
        let mut counts = BTreeMap::new();
        for (to, _) in &buffers.outgoing {
            *counts.entry(forest.vrank(*to)).or_default() += 1;
        }
        let children = position.children.iter().map(|child| forest.rank_at(*child)).collect();
        let others = match position.root_of {
            Some(group) => forest.other_groups(group).map(|other| forest.root(other)).collect(),
            None => vec![position.parent],
        };
        let (summary, stage, outgoing) = (buffers.summary, Stage::Up, VecDeque::new());
        let mut this =
            Self { buffers, forest, rank, counts, most_counts: 0, summary, stage, children, others, outgoing };
        this.advance();
        this
    }

    /// Sends the counts of an interval of virtual ranks, or all outside of it.
    fn send_counts(&mut self, to: u32, tag: u32, lo: u32, len: u32, inside: bool) {
        let mut above = self.counts.split_off(&(lo + len));
        let mut interval = self.counts.split_off(&lo);
        self.counts.append(&mut above);
        if !inside {
            std::mem::swap(&mut self.counts, &mut interval);
        }
        let pairs = interval.into_iter().map(|(vrank, count)| u64::from(vrank) << 32 | u64::from(count));
        let words: Vec<u64> = [self.summary.bits()].into_iter().chain(pairs).collect();
        self.outgoing.push_back(Transmit::new(to, MessageKind::Count.tag(tag), words));
    }

    fn advance(&mut self) {
        self.most_counts = self.most_counts.max(self.counts.len());
        let forest = self.forest.clone();
        let position = forest.position(self.rank);
        if self.stage == Stage::Up && self.children.is_empty() {
            self.stage = Stage::Down;
            match position.root_of {
                Some(group) => forest.other_groups(group).for_each(|other| {
                    let (lo, len) = forest.group_interval(other);
                    self.send_counts(forest.root(other), FROM_OTHER, lo, len, true);
                }),
                None => {
                    let len = forest.subtree_size(position.vrank);
                    self.send_counts(position.parent, FROM_CHILD, position.vrank, len, false);
                }
            }
        }
        if self.stage == Stage::Down && self.others.is_empty() {
            for child in position.children {
                self.send_counts(forest.rank_at(*child), FROM_OTHER, *child, forest.subtree_size(*child), true);
            }
            self.stage = Stage::Counted(self.counts.remove(&position.vrank).unwrap_or(0).into());
        }
    }

    /// Adds the counts of a child, or of the parent or another coordinator.
    fn add_counts(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let missing = if tag == FROM_CHILD { &mut self.children } else { &mut self.others };
        let sender = missing.iter().position(|rank| *rank == from);
        let words: Option<Vec<u64>> = bytes.into_vec().ok();
        // A sender that is not expected runs another operation.
        let mismatch = Error::CollectiveOrderMismatch { rank: from as usize };
        let (Some(sender), Some(words)) = (sender, words) else { return Err(mismatch) };
        let Some((summary, pairs)) = words.split_first() else { return Err(mismatch) };
        missing.swap_remove(sender);
        self.summary.merge(*summary);
        for pair in pairs {
            *self.counts.entry((pair >> 32) as u32).or_default() += *pair as u32;
        }
        self.advance();
        Ok(())
    }

    fn expects(&self, rank: u32) -> bool {
        self.children.contains(&rank) || self.others.contains(&rank)
    }
}

impl Reactor for RsxOverCoordinators {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(counts) = self.outgoing.pop_front() {
            return Some(counts);
        }
        // Long data ahead of the counts of a cluster would delay all others.
        let (to, bytes) = if self.stage == Stage::Up { None } else { self.buffers.outgoing.pop_front() }?;
        Some(Transmit::new(to, MessageKind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => self.buffers.receive(from, bytes),
            (MessageKind::Count, tag) => self.add_counts(from, tag, bytes)?,
            _ => return Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        match self.is_done() {
            true => PeerDependency::Nothing,
            false if self.expects(rank) => PeerDependency::Required,
            false => PeerDependency::Possible,
        }
    }

    fn is_done(&self) -> bool {
        let is_sent = self.outgoing.is_empty() && self.buffers.outgoing.is_empty();
        is_sent && self.stage == Stage::Counted(self.buffers.num_received)
    }
}

impl ExchangeReactor for RsxOverCoordinators {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.summary
    }

    fn memory(&self) -> usize {
        let peers = self.children.capacity() + self.others.capacity();
        size_of::<Self>() - size_of::<ExchangeBuffers>()
            + peers * size_of::<u32>()
            + self.most_counts * size_of::<(u32, u32)>()
    }
}
