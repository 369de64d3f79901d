//! The store-and-forward exchange: items go to their ranks dimension by dimension of a grid, or by powers of two around a
//! ring, many in one message.
//!
//! Cost on sides of P^(1/d), n bytes of a rank: d(P^(1/d)-1) alpha + d n (P^(1/d)-1)/P^(1/d) beta. One dimension is the direct
//! exchange, lg P dimensions the hypercube. Around a ring: ceil(lg P)(alpha + n/2 beta).   Any P, any lengths.
//! [RandomAccess paper; Bruck et al.]
//!
//! A rank sends items to whom it likes and learns who sent to it. How long a message on the way is depends on all items in
//! it, which is why this is a [`Reactor`] and no schedule. In each stage a rank sends one message, a bundle, to each rank
//! that [`routes`] names, also where it has nothing to say: bundles are counted to know that a stage is complete. Bundles of
//! later stages may come before that. Their items need no place of their own: what they are for lies within this rank's part
//! of all stages before, so those leave them here.
//!
//! Memory: what this rank sends and gets, and what is for others on its way. An item is copied once for each time it is sent:
//! it stays in the message that it came in until it is put into the next one. A bundle is a list of items, each with its
//! destination, its origin (4 bytes each), its length (8 bytes), and its bytes. Before them may stand a word of
//! notes, which a rank adds to those that it has got.

mod blocks;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::{Bytes, Error, Region, Result};
use treepie_fabric::{Needs, Reactor, Transmit};

pub use routes::Route;
use routes::Stage;

/// Something on its way from one rank to another.
#[derive(Debug)]
struct Item {
    to: u32,
    origin: u32,
    bytes: Region,
}

/// Bytes before each item of a bundle.
const HEAD: usize = 16;

/// The exchange on one rank.
pub struct StoreAndForward {
    ranks: u32,
    stages: Vec<Stage>,
    /// Those before it are complete, and its bundles have been made.
    current: usize,
    /// What is here, all of it for ranks of this rank's part of the current stage.
    here: Vec<Item>,
    outgoing: VecDeque<Transmit>,
    /// Bits that any rank has set whose bundles, or those of others before them, have come.
    notes: Option<u64>,
}

impl StoreAndForward {
    /// With these items for ranks.
    pub fn new(rank: u32, ranks: u32, route: Route, items: impl IntoIterator<Item = (u32, Region)>) -> Self {
        Self::with_notes(rank, ranks, route, None, items)
    }

    /// The same, and these bits get to all ranks, if they go around a ring.
    pub fn with_notes(
        rank: u32,
        ranks: u32,
        route: Route,
        notes: Option<u64>,
        items: impl IntoIterator<Item = (u32, Region)>,
    ) -> Self {
        let stages = routes::stages(rank, ranks, route);
        let mut this = Self {
            ranks,
            current: 0,
            here: items.into_iter().map(|(to, bytes)| Item { to, origin: rank, bytes }).collect(),
            outgoing: VecDeque::new(),
            notes,
            stages,
        };
        this.make_bundles();
        this
    }

    /// What came for this rank, once all has: origins in order, and what they sent in the order in which they did.
    pub fn take_items(&mut self) -> Vec<(u32, Region)> {
        debug_assert!(self.is_done());
        let mut items = std::mem::take(&mut self.here);
        items.sort_by_key(|item| item.origin);
        items.into_iter().map(|item| (item.origin, item.bytes)).collect()
    }

    /// Bits that any rank has set.
    pub fn notes(&self) -> u64 {
        self.notes.unwrap_or(0)
    }

    /// Bytes that it holds beside items and bundles.
    pub fn memory(&self) -> usize {
        let stages: usize = self.stages.iter().map(Stage::memory).sum();
        size_of::<Self>() + self.stages.capacity() * size_of::<Stage>() + stages
    }

    /// Bytes of notes before the items of a bundle.
    fn front(&self) -> usize {
        if self.notes.is_some() { size_of::<u64>() } else { 0 }
    }

    /// Puts what is not for this rank's part of the current stage into bundles.
    fn make_bundles(&mut self) {
        let Some(stage) = self.stages.get(self.current) else { return };
        let mut sizes = vec![self.front(); stage.receivers.len()];
        for item in &self.here {
            sizes[stage.part_of(item.to)] += HEAD + item.bytes.len();
        }
        sizes[stage.own] = 0;
        let mut bundles: Vec<Vec<u8>> = sizes.into_iter().map(Vec::with_capacity).collect();
        if let Some(notes) = self.notes {
            bundles.iter_mut().for_each(|bundle| bundle.extend_from_slice(&notes.to_le_bytes()));
        }
        self.here.retain(|item| {
            let part = stage.part_of(item.to);
            if part != stage.own {
                append(&mut bundles[part], item);
            }
            part == stage.own
        });
        let tag = self.current as u32;
        let bundle = |(place, bytes): (usize, Vec<u8>)| Transmit::new(stage.receivers[place], tag, bytes);
        let mut bundles: VecDeque<_> = bundles.into_iter().enumerate().collect();
        // Everybody begins with the part after its own, so that not all send to the same rank first.
        bundles.rotate_left(stage.own);
        self.outgoing.extend(bundles.into_iter().skip(1).map(bundle));
    }

    /// Goes through stages as long as they are complete.
    fn advance(&mut self) {
        while self.stages.get(self.current).is_some_and(|stage| stage.sources.is_empty()) {
            self.current += 1;
            self.make_bundles();
        }
    }
}

impl Reactor for StoreAndForward {
    fn name(&self) -> &'static str {
        "an exchange by store and forward"
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let got = bytes.as_slice().len() as u64;
        let place = self.stages.get(tag as usize).and_then(|stage| stage.sources.iter().position(|it| *it == from));
        // A rank that runs something else.
        let Some(place) = place else { return Err(Error::Disagreement { got, expected: 0 }) };
        let stage = &mut self.stages[tag as usize];
        stage.sources.swap_remove(place);
        let front = self.front();
        let stage = &self.stages[tag as usize];
        if let Some(notes) = &mut self.notes {
            *notes |= read_notes(&bytes)?;
        }
        read_items(bytes, front, stage, self.ranks, &mut self.here)?;
        self.advance();
        Ok(())
    }

    fn needs(&self, rank: u32) -> Needs {
        let waits = self.stages.iter().any(|stage| stage.sources.contains(&rank));
        if waits { Needs::Message } else { Needs::Nothing }
    }

    fn is_done(&self) -> bool {
        self.current == self.stages.len() && self.outgoing.is_empty()
    }
}

fn append(bundle: &mut Vec<u8>, item: &Item) {
    let len = item.bytes.len();
    bundle.extend_from_slice(&item.to.to_le_bytes());
    bundle.extend_from_slice(&item.origin.to_le_bytes());
    bundle.extend_from_slice(&(len as u64).to_le_bytes());
    item.bytes.read(0..len, |bytes| bundle.extend_from_slice(bytes));
}

fn read_notes(bundle: &Bytes) -> Result<u64> {
    let bundle = bundle.as_slice();
    let notes = bundle.first_chunk().map(|notes| u64::from_le_bytes(*notes));
    notes.ok_or(Error::Disagreement { got: bundle.len() as u64, expected: size_of::<u64>() as u64 })
}

/// Takes a bundle of a stage apart, behind its notes.
fn read_items(bundle: Bytes, front: usize, stage: &Stage, ranks: u32, into: &mut Vec<Item>) -> Result<()> {
    let bundle = Region::from(bundle);
    let got = bundle.len() as u64;
    let mut at = front;
    while at < bundle.len() {
        let begin = at + HEAD;
        if begin > bundle.len() {
            return Err(Error::Disagreement { got, expected: begin as u64 });
        }
        let head: [u8; HEAD] = bundle.read(at..begin, |head| head.try_into().expect("as long as it is"));
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (to, origin) = (number(0), number(4));
        let len = u64::from(number(8)) | u64::from(number(12)) << 32;
        if !stage.can_be_for(to) || origin >= ranks {
            // No bundle of this exchange: it made sense up to here.
            return Err(Error::Disagreement { got, expected: at as u64 });
        }
        let end = len.saturating_add(begin as u64);
        if end > got {
            return Err(Error::Disagreement { got, expected: end });
        }
        at = end as usize;
        into.push(Item { to, origin, bytes: bundle.sub(begin..at) });
    }
    Ok(())
}
