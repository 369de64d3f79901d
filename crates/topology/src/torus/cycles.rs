//! Splits the edges of a torus into Hamiltonian cycles, one per dimension.
//!
//! Such a split exists for every product of rings of three or more (Kotzig 1973 and Foregger 1978 for two and three
//! rings, Aubert and Schneider 1982 for more), but the proofs are long analyses of cases. This is a search instead:
//! edges are coloured by dimension, and unit squares with sides of the colours a, b, a, b swap them, which merges,
//! twists or splits the cycles that meet there. Swaps that merge and do not split are taken until each colour is one
//! cycle; where none is left, a few others are made and it goes on. The search is bounded, and the same every time.
//!
//! Memory: 10 bytes per place and dimension.

use super::colouring::{Colouring, Effect};

/// Passes over all squares before the search gives up. A torus of 64x64x64 needs about 30.
const PASSES: usize = 400;

/// As many Hamiltonian cycles without a common edge as were found, at most one per ring; rings have three places or
/// more.
///
/// Places are numbered as in a torus, the first ring fastest. Every cycle begins at place 0.
pub(super) fn disjoint_cycles(rings: &[u32]) -> Vec<Vec<u32>> {
    let mut search = Search { colouring: Colouring::new(rings), planes: planes(rings.len()), random: Random(0) };
    // A twist means following a long cycle, so the swaps without one come first.
    search.pass(u32::MAX, |effects, _| effects == [Effect::Merge; 2]);
    let mut detours = 0;
    for _ in 0..PASSES {
        let cycles: u32 = search.colouring.cycles().iter().sum();
        if cycles as usize == rings.len() {
            break;
        }
        if search.pass(u32::MAX, |effects, _| merges(effects) && !splits(effects)) == 0 {
            // Detours beside the short cycles loosen these, but can go round in circles: every other one is anywhere.
            detours += 1;
            let anywhere = detours % 2 == 0;
            search.pass(cycles, |effects, short| (anywhere || short) && (merges(effects) || !splits(effects)));
        }
    }
    let colouring = search.colouring;
    let whole = (0..rings.len()).filter(|&colour| colouring.cycles()[colour] == 1);
    whole.map(|colour| colouring.cycle(colour)).collect()
}

fn merges(effects: [Effect; 2]) -> bool {
    effects.contains(&Effect::Merge)
}

fn splits(effects: [Effect; 2]) -> bool {
    effects.contains(&Effect::Split)
}

/// All pairs of dimensions.
fn planes(dimensions: usize) -> Vec<[usize; 2]> {
    (0..dimensions).flat_map(|second| (0..second).map(move |first| [first, second])).collect()
}

struct Search {
    colouring: Colouring,
    planes: Vec<[usize; 2]>,
    random: Random,
}

impl Search {
    /// Looks at every square once, in a random order, and swaps where `may` allows it, but no more than `most`.
    ///
    /// `may` gets the effects on both colours, and whether the square lies at a short cycle. Returns how many were
    /// swapped.
    fn pass(&mut self, most: u32, may: impl Fn([Effect; 2], bool) -> bool) -> u32 {
        let planes = self.planes.len() as u64;
        let mut swapped = 0;
        for index in self.random.permutation(u64::from(self.colouring.places()) * planes) {
            let (place, plane) = ((index / planes) as u32, self.planes[(index % planes) as usize]);
            let Some(square) = self.colouring.square(place, plane) else { continue };
            if may(square.effects(), self.colouring.on_short_cycle(place)) {
                self.colouring.swap(&square);
                swapped += 1;
                if swapped == most {
                    break;
                }
            }
        }
        swapped
    }
}

/// SplitMix64: the choices need variety, not quality.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// The numbers below `count`, each once: a step without a common factor visits all of them.
    fn permutation(&mut self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let mut index = self.next() % count.max(1);
        let step = loop {
            let step = self.next() % count.max(1);
            if greatest_common_divisor(step, count) <= 1 {
                break step;
            }
        };
        (0..count).map(move |_| {
            index = (index + step) % count;
            index
        })
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut random = Random(0);
        for count in 0..50 {
            let mut numbers: Vec<u64> = random.permutation(count).collect();
            numbers.sort();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn small_tori_split_into_as_many_cycles_as_dimensions() {
        for (a, b) in (3..10).flat_map(|a| (3..10).map(move |b| (a, b))) {
            assert_eq!(disjoint_cycles(&[a, b]).len(), 2, "{a}x{b}");
            assert_eq!(disjoint_cycles(&[a, b, 3]).len(), 3, "{a}x{b}x3");
            assert_eq!(disjoint_cycles(&[4, a, b]).len(), 3, "4x{a}x{b}");
        }
    }
}
