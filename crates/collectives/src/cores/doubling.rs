//! Recursive doubling: in every stage pairs of ranks exchange all they have, and so have twice as much.
//!
//! Cost: ceil(lg P) alpha + n(P-1) beta without congestion. Which pairs come first decides the congestion: with the
//! nearest first (distance doubling) the longest messages go farthest; with the farthest first (distance halving) they go
//! to neighbours. On a torus the distance is halved on the Morton order of the places.   Any P.   [thesis 3.3.1, 3.4.1]
//!
//! The ranks stand in an order. If P is no power of two, the V = 2^ceil(lg P) players of the algorithm are folded onto
//! them: of the F = V - P first ranks each plays two neighbours, of which the second has nothing of its own at first. The
//! fold keeps the order, so intervals stay intervals, and what the two would exchange with each other needs no message.
//!
//! After s stages of distance halving a player has what those with the same lg V - s low bits had: a range in the
//! bit-reversed order of the players, which is this core's view. After s stages of distance doubling it is a range of
//! players as they stand.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Rounds, Run};

/// Which partners come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// The nearest.
    Doubling,
    /// The farthest.
    Halving,
}

/// Recursive doubling over an order of the ranks.
#[derive(Clone, Debug)]
pub struct Doubling {
    distance: Distance,
    /// The ranks in order, and where each of them stands.
    order: Vec<u32>,
    stands: Vec<u32>,
    /// lg of the number of players.
    stages: u32,
    /// Ranks that play two.
    folded: u32,
    /// How many players with something of their own stand before each position of the view.
    before: Vec<u32>,
    /// Whether the blocks are brought to where their order is that of the view; else each block stays with its rank.
    moved: bool,
}

impl Doubling {
    /// Over ranks in this order. With `moved`, ranks begin with other ranks' blocks, such that all they collect is
    /// consecutive in memory; without, each begins with its own, and what it collects is scattered.
    pub fn new(distance: Distance, order: Vec<u32>, moved: bool) -> Self {
        let ranks = order.len() as u32;
        let stages = ranks.next_power_of_two().trailing_zeros();
        let mut stands = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(rank, at)| stands[*rank as usize] = at);
        let folded = (1 << stages) - ranks;
        let mut core = Self { distance, order, stands, stages, folded, before: Vec::new(), moved };
        let mut count = 0;
        core.before.push(0);
        for position in 0..1 << stages {
            count += u32::from(!core.is_second(core.player_at(position)));
            core.before.push(count);
        }
        core
    }

    /// How many positions the view has.
    pub(super) fn positions(&self) -> u32 {
        1 << self.stages
    }

    /// The player at a position of the view, and the other way round.
    fn player_at(&self, position: u32) -> u32 {
        match self.distance {
            Distance::Doubling => position,
            Distance::Halving if self.stages == 0 => position,
            Distance::Halving => position.reverse_bits() >> (32 - self.stages),
        }
    }

    /// Whether a player is the second of its rank, and has nothing of its own.
    fn is_second(&self, player: u32) -> bool {
        player < 2 * self.folded && player % 2 == 1
    }

    /// Where the rank stands that plays this one.
    fn stand_of(&self, player: u32) -> u32 {
        if player < 2 * self.folded { player / 2 } else { player - self.folded }
    }

    fn first_player(&self, stand: u32) -> u32 {
        if stand < self.folded { 2 * stand } else { stand + self.folded }
    }

    /// What a player has before a stage, as a range of the view.
    fn has(&self, player: u32, stage: u32) -> (u32, u32) {
        let lo = match self.distance {
            Distance::Doubling => player >> stage << stage,
            Distance::Halving => self.player_at(player & ((1u32 << (self.stages - stage)) - 1)),
        };
        (lo, 1 << stage)
    }

    /// The block at a position of the view, if its player has one.
    fn block_at(&self, position: u32) -> Option<u32> {
        let player = self.player_at(position);
        if self.is_second(player) {
            return None;
        }
        Some(if self.moved { self.before[position as usize] } else { self.order[self.stand_of(player) as usize] })
    }

    fn is_empty(&self, (lo, len): (u32, u32)) -> bool {
        self.before[lo as usize] == self.before[(lo + len) as usize]
    }

    fn exchange(&self, player: u32, stage: u32, into: &mut Rounds) {
        let bit = match self.distance {
            Distance::Doubling => stage,
            Distance::Halving => self.stages - 1 - stage,
        };
        let partner = player ^ 1 << bit;
        let (stand, other) = (self.stand_of(player), self.stand_of(partner));
        if stand == other {
            return;
        }
        let peer = self.order[other as usize];
        // With the nearest first, both players of a rank have the same after the first stage; one of them gets more.
        let gets = |player: u32| self.distance == Distance::Halving || !self.is_second(player);
        let (mine, its) = (self.has(player, stage), self.has(partner, stage));
        if gets(partner) && !self.is_empty(mine) {
            into.push(Op::Send { to: peer, part: Part::viewed(Buf::Out, 1, mine.0, mine.1) });
        }
        if gets(player) && !self.is_empty(its) {
            into.push(Op::Recv { from: peer, part: Part::viewed(Buf::Out, 1, its.0, its.1) });
        }
    }
}

impl Core for Doubling {
    fn ranks(&self) -> u32 {
        self.order.len() as u32
    }

    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        let player = self.first_player(self.stands[rank as usize]);
        piece(self.block_at(self.player_at(player)).expect("a rank's first player has a block"), 0);
    }

    fn keeper(&self, block: u32, _cut: u32) -> u32 {
        if !self.moved {
            return block;
        }
        // The position before which exactly so many have something, and which has something itself.
        let position = self.before.partition_point(|before| *before <= block) as u32 - 1;
        self.order[self.stand_of(self.player_at(position)) as usize]
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.stages
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let stand = self.stands[rank as usize];
        let first = self.first_player(stand);
        for stage in rounds {
            self.exchange(first, stage, into);
            if stand < self.folded {
                self.exchange(first + 1, stage, into);
            }
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        if self.moved {
            let (begin, end) = (self.before[lo as usize], self.before[(lo + len) as usize]);
            if begin < end {
                run(Run::whole(begin, end - begin));
            }
            return;
        }
        let mut joined = Run::whole(0, 0);
        for block in (lo..lo + len).filter_map(|position| self.block_at(position)) {
            if joined.blocks > 0 && joined.block + joined.blocks == block {
                joined.blocks += 1;
            } else {
                if joined.blocks > 0 {
                    run(joined);
                }
                joined = Run::whole(block, 1);
            }
        }
        if joined.blocks > 0 {
            run(joined);
        }
    }
}
