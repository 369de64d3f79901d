//! Hamiltonian decomposition of a torus: partitions its edges into Hamiltonian cycles, one per dimension.
//!
//! A decomposition exists for every product of rings of three or more (Kotzig 1973 and Foregger 1978 for two and three
//! rings, Aubert and Schneider 1982 for more), but the proofs are long case analyses. This is a local search instead:
//! edges are colored by dimension, and a swap exchanges the colors of a unit square with sides a, b, a, b, which
//! merges, twists or splits the cycles that meet there. The search takes swaps that merge and do not split until each
//! color is one cycle; where none is left, it takes a few others. It is bounded and deterministic.
//!
//! Memory: 10 bytes per node and dimension.

use super::coloring::{Coloring, SwapEffect};

/// Maximum number of passes over all squares. A torus of 64x64x64 needs about 30.
const MAX_PASSES: usize = 400;

/// The edge-disjoint Hamiltonian cycles that the search found, at most one per ring of three or more nodes.
///
/// Nodes are numbered as in a torus, the first ring fastest. Every cycle begins at node 0.
pub(super) fn disjoint_cycles(rings: &[u32]) -> Vec<Vec<u32>> {
    let mut search = CycleSearch { coloring: Coloring::new(rings), planes: planes(rings.len()), random: SplitMix64(0) };
    // A twist has to walk a long cycle, so swaps without a twist come first.
    search.pass(u32::MAX, |effects, _| effects == [SwapEffect::Merge; 2]);
    let mut detours = 0;
    for _ in 0..MAX_PASSES {
        let cycles: u32 = search.coloring.cycles().iter().sum();
        if cycles as usize == rings.len() {
            break;
        }
        if search.pass(u32::MAX, |effects, _| merges(effects) && !splits(effects)) == 0 {
            // Other swaps at short cycles open these up, but can repeat forever: every second time, swap anywhere.
            detours += 1;
            let anywhere = detours % 2 == 0;
            search.pass(cycles, |effects, short| (anywhere || short) && (merges(effects) || !splits(effects)));
        }
    }
    let coloring = search.coloring;
    let whole = (0..rings.len()).filter(|&color| coloring.cycles()[color] == 1);
    whole.map(|color| coloring.cycle(color)).collect()
}

fn merges(effects: [SwapEffect; 2]) -> bool {
    effects.contains(&SwapEffect::Merge)
}

fn splits(effects: [SwapEffect; 2]) -> bool {
    effects.contains(&SwapEffect::Split)
}

/// All pairs of dimensions.
fn planes(dimensions: usize) -> Vec<[usize; 2]> {
    (0..dimensions).flat_map(|second| (0..second).map(move |first| [first, second])).collect()
}

struct CycleSearch {
    coloring: Coloring,
    planes: Vec<[usize; 2]>,
    random: SplitMix64,
}

impl CycleSearch {
    /// Visits every square once, in random order, and swaps those that `accept` accepts, at most `max_swaps`.
    ///
    /// `accept` gets the effects on both colors, and whether the square is at a short cycle. Returns the number of
    /// swaps.
    fn pass(&mut self, max_swaps: u32, accept: impl Fn([SwapEffect; 2], bool) -> bool) -> u32 {
        let planes = self.planes.len() as u64;
        let mut swapped = 0;
        for index in self.random.permutation(u64::from(self.coloring.nodes()) * planes) {
            let (node, plane) = ((index / planes) as u32, self.planes[(index % planes) as usize]);
            let Some(square) = self.coloring.square(node, plane) else { continue };
            if accept(square.effects(), self.coloring.on_short_cycle(node)) {
                self.coloring.swap(&square);
                swapped += 1;
                if swapped == max_swaps {
                    break;
                }
            }
        }
        swapped
    }
}

/// The SplitMix64 generator: cheap, and of sufficient quality for a search.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A permutation of the numbers below `count`: steps by a number coprime to `count`.
    fn permutation(&mut self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let mut index = self.next() % count.max(1);
        let step = loop {
            let step = self.next() % count.max(1);
            if gcd(step, count) <= 1 {
                break step;
            }
        };
        (0..count).map(move |_| {
            index = (index + step) % count;
            index
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_exactly_once() {
        let mut random = SplitMix64(0);
        for count in 0..50 {
            let mut numbers: Vec<u64> = random.permutation(count).collect();
            numbers.sort();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn small_tori_decompose_into_one_cycle_per_dimension() {
        for (a, b) in (3..10).flat_map(|a| (3..10).map(move |b| (a, b))) {
            assert_eq!(disjoint_cycles(&[a, b]).len(), 2, "{a}x{b}");
            assert_eq!(disjoint_cycles(&[a, b, 3]).len(), 3, "{a}x{b}x3");
            assert_eq!(disjoint_cycles(&[4, a, b]).len(), 3, "4x{a}x{b}");
        }
    }
}
