//! Store-and-forward exchange: items are forwarded along the dimensions of a grid, or by powers of two around a ring,
//! aggregated into few messages.
//!
//! Cost on a grid with sides P^(1/d), n bytes per rank: d(P^(1/d)-1) alpha + d n (P^(1/d)-1)/P^(1/d) beta. One
//! dimension is the direct exchange, lg P dimensions the hypercube. Around a ring: ceil(lg P)(alpha + n/2 beta).   Any
//! P, any lengths. [RandomAccess paper; Bruck et al.]
//!
//! A rank sends items to any ranks and learns which ranks sent to it. The length of a forwarded message depends on all
//! items in it, so this is a [`Reactor`] and not a schedule. In each stage a rank sends one message, a bundle, to each
//! receiver of the stage ([`forwarding`]), even an empty one: a rank counts bundles to detect the end of a stage.
//! Bundles of later stages may arrive before that. Their items need no separate queue: their destinations lie in this
//! rank's part of all earlier stages, so those stages leave them here.
//!
//! Memory: what this rank sends and receives, and the items it forwards. An item is copied once each time it is sent:
//! it stays in the message in which it arrived until it is copied into the next one. A bundle is a list of items, each
//! with its destination and origin (4 bytes each), its length (8 bytes), and its bytes. A word of flags may precede
//! them; a rank combines the flags it receives with its own by or.

mod alltoallv;
mod forwarding;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::{Bytes, Error, Region, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

pub use forwarding::ForwardingScheme;
use forwarding::ForwardingStage;

/// An item in transit from one rank to another.
#[derive(Debug)]
struct Item {
    to: u32,
    origin: u32,
    bytes: Region,
}

/// Bytes of the header of an item in a bundle.
const HEADER: usize = 16;

/// The exchange on one rank.
pub struct StoreAndForward {
    ranks: u32,
    stages: Vec<ForwardingStage>,
    /// The current stage: all before it are complete, and its bundles have been made.
    current: usize,
    /// Items on this rank; all of them for this rank's part of the current stage.
    held: Vec<Item>,
    outgoing: VecDeque<Transmit>,
    /// The or of all flags received so far, directly or forwarded.
    flags: Option<u64>,
}

impl StoreAndForward {
    /// An exchange of these items, each with its destination.
    pub fn new(
        rank: u32,
        ranks: u32,
        scheme: ForwardingScheme,
        items: impl IntoIterator<Item = (u32, Region)>,
    ) -> Self {
        Self::with_flags(rank, ranks, scheme, None, items)
    }

    /// The same with flags, which reach all ranks if the scheme is a ring.
    pub fn with_flags(
        rank: u32,
        ranks: u32,
        scheme: ForwardingScheme,
        flags: Option<u64>,
        items: impl IntoIterator<Item = (u32, Region)>,
    ) -> Self {
        let stages = forwarding::stages(rank, ranks, scheme);
        let mut this = Self {
            ranks,
            current: 0,
            held: items.into_iter().map(|(to, bytes)| Item { to, origin: rank, bytes }).collect(),
            outgoing: VecDeque::new(),
            flags,
            stages,
        };
        this.make_bundles();
        this
    }

    /// The items for this rank, once all have arrived: ordered by origin, those of one origin in the order in which it
    /// sent them.
    pub fn take_items(&mut self) -> Vec<(u32, Region)> {
        debug_assert!(self.is_done());
        let mut items = std::mem::take(&mut self.held);
        items.sort_by_key(|item| item.origin);
        items.into_iter().map(|item| (item.origin, item.bytes)).collect()
    }

    /// The or of the flags of all ranks.
    pub fn flags(&self) -> u64 {
        self.flags.unwrap_or(0)
    }

    /// Bytes of memory, without items and bundles.
    pub fn memory(&self) -> usize {
        let stages: usize = self.stages.iter().map(ForwardingStage::memory).sum();
        size_of::<Self>() + self.stages.capacity() * size_of::<ForwardingStage>() + stages
    }

    /// Bytes of the flags in a bundle.
    fn flags_len(&self) -> usize {
        if self.flags.is_some() { size_of::<u64>() } else { 0 }
    }

    /// Packs the items for other parts of the current stage into bundles.
    fn make_bundles(&mut self) {
        let Some(stage) = self.stages.get(self.current) else { return };
        let mut sizes = vec![self.flags_len(); stage.receivers.len()];
        for item in &self.held {
            sizes[stage.part_of(item.to)] += HEADER + item.bytes.len();
        }
        sizes[stage.own_part] = 0;
        let mut bundles: Vec<Vec<u8>> = sizes.into_iter().map(Vec::with_capacity).collect();
        if let Some(flags) = self.flags {
            bundles.iter_mut().for_each(|bundle| bundle.extend_from_slice(&flags.to_le_bytes()));
        }
        self.held.retain(|item| {
            let part = stage.part_of(item.to);
            if part != stage.own_part {
                append(&mut bundles[part], item);
            }
            part == stage.own_part
        });
        let tag = self.current as u32;
        let bundle = |(part, bytes): (usize, Vec<u8>)| Transmit::new(stage.receivers[part], tag, bytes);
        let mut bundles: VecDeque<_> = bundles.into_iter().enumerate().collect();
        // Each rank starts with the part after its own, so that not all send to the same rank first.
        bundles.rotate_left(stage.own_part);
        self.outgoing.extend(bundles.into_iter().skip(1).map(bundle));
    }

    /// Advances to the next stage while the current one is complete.
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
        let index =
            self.stages.get(tag as usize).and_then(|stage| stage.sources.iter().position(|source| *source == from));
        // The sender runs another operation.
        let Some(index) = index else { return Err(Error::LengthMismatch { got, expected: 0 }) };
        let stage = &mut self.stages[tag as usize];
        stage.sources.swap_remove(index);
        let flags_len = self.flags_len();
        let stage = &self.stages[tag as usize];
        if let Some(flags) = &mut self.flags {
            *flags |= read_flags(&bytes)?;
        }
        read_items(bytes, flags_len, stage, self.ranks, &mut self.held)?;
        self.advance();
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        let waits = self.stages.iter().any(|stage| stage.sources.contains(&rank));
        if waits { PeerDependency::Required } else { PeerDependency::Nothing }
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

fn read_flags(bundle: &Bytes) -> Result<u64> {
    let bundle = bundle.as_slice();
    let flags = bundle.first_chunk().map(|flags| u64::from_le_bytes(*flags));
    flags.ok_or(Error::LengthMismatch { got: bundle.len() as u64, expected: size_of::<u64>() as u64 })
}

/// Unpacks a bundle of a stage, after its flags.
fn read_items(
    bundle: Bytes,
    flags_len: usize,
    stage: &ForwardingStage,
    ranks: u32,
    into: &mut Vec<Item>,
) -> Result<()> {
    let bundle = Region::from(bundle);
    let got = bundle.len() as u64;
    let mut at = flags_len;
    while at < bundle.len() {
        let begin = at + HEADER;
        if begin > bundle.len() {
            return Err(Error::LengthMismatch { got, expected: begin as u64 });
        }
        let head: [u8; HEADER] = bundle.read(at..begin, |head| head.try_into().expect("the range has this length"));
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (to, origin) = (number(0), number(4));
        let len = u64::from(number(8)) | u64::from(number(12)) << 32;
        if !stage.accepts(to) || origin >= ranks {
            // Not a bundle of this exchange: valid only up to here.
            return Err(Error::LengthMismatch { got, expected: at as u64 });
        }
        let end = len.saturating_add(begin as u64);
        if end > got {
            return Err(Error::LengthMismatch { got, expected: end });
        }
        at = end as usize;
        into.push(Item { to, origin, bytes: bundle.subregion(begin..at) });
    }
    Ok(())
}
