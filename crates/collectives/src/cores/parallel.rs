//! Several cores at once, each on its piece of every block: over different links of a node, they multiply the bandwidth.
//!
//! Cost: the messages of all of them, the bandwidth of one with a share of the bytes.   [thesis 3.4.2, 3.4.3]
//!
//! With moved blocks, the pieces of all blocks in order are dealt to the cores in as many stretches of equal number as
//! there are cores: piece number s = cuts * block + cut goes to core s / P, where it is number s mod P. So each core's
//! part of the result is consecutive in memory. Blocks that the number of cores does not divide are cut between elements.

use std::ops::Range;

use treepie_schedule::schedule::End;
use treepie_schedule::{Core, Op, Part, Phase, Rounds, Run};
use treepie_topology::Tie;

/// Cores that run at once.
pub struct Parallel<C> {
    cores: Vec<C>,
    /// For each phase, which core a lane belongs to, and which of its lanes it is.
    lanes: Vec<Vec<(u32, u32)>>,
    moved: bool,
}

impl<C: Core> Parallel<C> {
    /// All of them have the same ranks and as many phases. `moved` says that they begin with blocks that are moved.
    pub fn new(cores: Vec<C>, moved: bool) -> Self {
        let phases = cores.first().map_or(0, Core::phases);
        assert!(cores.iter().all(|core| core.phases() == phases), "cores that run at once have as many phases");
        let lanes_of = |phase: u32| {
            let cores = cores.iter().zip(0..);
            cores.flat_map(|(core, number)| (0..core.phase(phase).lanes).map(move |lane| (number, lane))).collect()
        };
        let lanes = (0..phases).map(lanes_of).collect();
        Self { cores, lanes, moved }
    }

    fn lane(&self, phase: u32, lane: u32) -> (u32, u32) {
        self.lanes[phase as usize][lane as usize]
    }

    /// The pieces s, of which each block has as many as there are cores.
    fn sections(&self, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let of = self.cuts();
        let mut at = lo;
        while at < lo + len {
            let left = lo + len - at;
            if at.is_multiple_of(of) && left >= of {
                run(Run::whole(at / of, left / of));
                at += left / of * of;
            } else {
                run(Run { block: at / of, blocks: 1, seg: at % of, of });
                at += 1;
            }
        }
    }
}

impl<C: Core> Core for Parallel<C> {
    fn ranks(&self) -> u32 {
        self.cores[0].ranks()
    }

    fn cuts(&self) -> u32 {
        self.cores.len() as u32
    }

    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        let (ranks, cuts) = (self.ranks(), self.cuts());
        for (lane, core) in (0..).zip(&self.cores) {
            core.kept(rank, &mut |block, _| {
                let section = lane * ranks + block;
                if self.moved { piece(section / cuts, section % cuts) } else { piece(block, lane) }
            });
        }
    }

    fn keeper(&self, block: u32, cut: u32) -> u32 {
        if !self.moved {
            return block;
        }
        let section = block * self.cuts() + cut;
        self.cores[(section / self.ranks()) as usize].keeper(section % self.ranks(), 0)
    }

    fn phases(&self) -> u32 {
        self.cores[0].phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        let global = self.cores.iter().any(|core| core.phase(phase).end == End::Global);
        let all = Phase::lanes(self.lanes[phase as usize].len() as u32);
        if global { all.global() } else { all }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        let (core, lane) = self.lane(phase, lane);
        self.cores[core as usize].rounds(rank, phase, lane)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let mark = into.mark();
        let (core, lane) = self.lane(phase, lane);
        self.cores[core as usize].emit(rank, phase, lane, rounds, into);
        // Each core has a view of its own, which knows the pieces.
        let piece = |part: Part| Part { view: core as u8 + 1, ..part };
        into.map_since(mark, |op| match op {
            Op::Send { to, part } => Op::Send { to, part: piece(part) },
            Op::Recv { from, part } => Op::Recv { from, part: piece(part) },
            _ => unreachable!("cores send and receive only"),
        });
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let (number, ranks, of) = (u32::from(view) - 1, self.ranks(), self.cuts());
        self.cores[number as usize].runs(1, lo, len, &mut |found| {
            if self.moved {
                self.sections(number * ranks + found.block, found.blocks, run);
            } else {
                run(Run { seg: number, of, ..found });
            }
        });
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        let (core, lane) = self.lane(phase, lane);
        self.cores[core as usize].tie(phase, lane)
    }
}
