//! Allreduce by bidirectional exchange, and its hybrid with recursive halving: the vector is halved some times while it is
//! reduced, what is left is exchanged with all others who have the same part, then the parts are collected again.
//!
//! Cost without congestion, h halvings of lg P: (lg P + h) alpha + (2(1 - 2^-h) + 2^-h (lg P - h)) n beta. Without any this is
//! recursive doubling, with lg P of them recursive halving. On a p x p mesh with alternating dimensions: lg P alpha +
//! p n delta and 2 lg P alpha + (9/4 - 3/(2p)) n delta.   Any P; powers of two for alternating dimensions.   [thesis 3.2.1]
//!
//! If P is no power of two, the first ranks are folded: of each pair of neighbours one gives its vector to the other, and
//! gets the result at the end. Nearest partners come first, so what a rank has reduced is from an interval of ranks. Both
//! partners put their operands in the same order, so they compute exactly the same.
//!
//! With alternating dimensions the order of ranks is lost anyway. There halvings begin with the nearest, and the exchange
//! with the farthest. Stages over more than one hop stay within a class (those who go X first, those who go Y first), so all
//! who exchange a part there add up in the same order; the stages between neighbours are the same for both classes. So all
//! ranks get exactly the same, with any number of halvings. An exchange that began with the nearest would not do that: with
//! fewer halvings than dimensions both classes would have the same part, and go on with it in different orders.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Schedule, Side};

use crate::cores::bits::Bits;

/// Recursive halving, an exchange of what is left, and recursive doubling.
#[derive(Clone, Debug)]
pub struct HalvingExchange {
    bits: Bits,
    halvings: u32,
    /// Pairs of neighbours that take part as one.
    folded: u32,
    /// Whether the exchange begins with the nearest partners.
    nearest_first: bool,
}

const LOAD: u32 = 0;
const REDUCE: u32 = 1;
const COLLECT: u32 = 2;
const GIVE_BACK: u32 = 3;

impl HalvingExchange {
    /// Bidirectional exchange of the whole vector. Keeps the order of ranks.
    pub fn recursive_doubling(ranks: u32) -> Self {
        Self::new(ranks, 0)
    }

    /// With so many halvings, or as many as there can be. Keeps the order of ranks.
    pub fn new(ranks: u32, halvings: u32) -> Self {
        let stages = ranks.ilog2();
        let folded = ranks - (1 << stages);
        Self { bits: Bits::plain(stages), halvings: halvings.min(stages), folded, nearest_first: true }
    }

    /// On a torus or mesh with the first of `dims` fastest, half of the ranks taking the dimensions in another order.
    /// Nothing if a side is no power of two.
    pub fn alternating(dims: &[u32], halvings: u32) -> Option<Self> {
        let bits = Bits::grid(dims)?;
        let halvings = halvings.min(bits.len());
        Some(Self { bits, halvings, folded: 0, nearest_first: false })
    }

    /// The number among those who take part; nothing if another one does it for this rank.
    fn player(&self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.folded { Some(rank - self.folded) } else { rank.is_multiple_of(2).then_some(rank / 2) }
    }

    fn rank(&self, player: u32) -> u32 {
        if player < self.folded { 2 * player } else { player + self.folded }
    }

    fn whole(&self, buf: Buf) -> Part {
        Part::blocks(buf, 0, self.blocks())
    }

    /// Where the part begins that a player is left with.
    fn position(&self, player: u32) -> u32 {
        self.bits.position(player, self.halvings)
    }

    /// What a player has after so many halvings, and what the last of its partners has.
    fn parts(&self, position: u32, halvings: u32) -> (Part, Part) {
        let left = self.halvings - halvings;
        let part = |position: u32| Part::blocks(Buf::Out, position >> left << left, 1 << left);
        (part(position), part(position ^ 1 << left))
    }

    fn emit_load(&self, rank: u32, rounds: Range<u32>, into: &mut Rounds) {
        for round in rounds {
            if self.player(rank).is_none() {
                into.push(Op::Send { to: rank - 1, part: self.whole(Buf::In) });
            } else if round == 0 {
                into.push(Op::Copy { from: self.whole(Buf::In), to: self.whole(Buf::Out) });
            } else {
                into.push(Op::RecvReduce { from: rank + 1, part: self.whole(Buf::Out), side: Side::Right });
            }
            into.end();
        }
    }

    fn emit_reduce(&self, rank: u32, player: u32, rounds: Range<u32>, into: &mut Rounds) {
        let position = self.position(player);
        let exchanges = self.bits.len() - self.halvings;
        let left = Part::blocks(Buf::Out, position, 1);
        let got = left.of_buf(Buf::Tmp(0));
        for round in rounds {
            // After the halvings a stage takes two rounds: what is sent cannot be changed at the same time.
            let exchange = round.checked_sub(self.halvings).map(|after| after / 2);
            let stage = match exchange {
                None => self.bits.len() - 1 - round,
                Some(exchange) if self.nearest_first => exchanges - 1 - exchange,
                Some(exchange) => exchange,
            };
            let peer = self.rank(self.bits.partner(player, stage));
            let side = Side::of(peer, rank);
            if exchange.is_none() {
                let (mine, its) = self.parts(position, round + 1);
                into.push(Op::Send { to: peer, part: its });
                into.push(Op::RecvReduce { from: peer, part: mine, side });
            } else if (round - self.halvings).is_multiple_of(2) {
                into.push(Op::Send { to: peer, part: left });
                into.push(Op::Recv { from: peer, part: got });
            } else {
                into.push(Op::Reduce { from: got, into: left, side });
            }
            into.end();
        }
    }

    fn emit_collect(&self, player: u32, rounds: Range<u32>, into: &mut Rounds) {
        let position = self.position(player);
        for round in rounds {
            let peer = self.rank(self.bits.partner(player, self.bits.len() - self.halvings + round));
            let (mine, its) = self.parts(position, self.halvings - round);
            into.push(Op::Send { to: peer, part: mine });
            into.push(Op::Recv { from: peer, part: its });
            into.end();
        }
    }
}

impl Schedule for HalvingExchange {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        (1 << self.bits.len()) + self.folded
    }

    fn blocks(&self) -> u32 {
        1 << self.halvings
    }

    fn temporaries(&self) -> u8 {
        u8::from(self.halvings < self.bits.len())
    }

    fn phases(&self) -> u32 {
        4
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let folded = u32::from(rank < 2 * self.folded);
        match (phase, self.player(rank)) {
            (LOAD, Some(_)) => 1 + folded,
            (LOAD, None) => 1,
            (GIVE_BACK, _) => folded,
            (_, None) => 0,
            (REDUCE, _) => self.halvings + 2 * (self.bits.len() - self.halvings),
            (_, Some(_)) => self.halvings,
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        match (phase, self.player(rank)) {
            (LOAD, _) => self.emit_load(rank, rounds, into),
            (REDUCE, Some(player)) => self.emit_reduce(rank, player, rounds, into),
            (COLLECT, Some(player)) => self.emit_collect(player, rounds, into),
            (GIVE_BACK, player) => {
                for _ in rounds {
                    into.push(match player {
                        Some(_) => Op::Send { to: rank + 1, part: self.whole(Buf::Out) },
                        None => Op::Recv { from: rank - 1, part: self.whole(Buf::Out) },
                    });
                    into.end();
                }
            }
            // Another one does it for this rank.
            _ => {}
        }
    }
}
