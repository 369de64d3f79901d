//! What protocols hold on a rank beside messages, as they count it themselves: PEX and PCX an entry for each rank, RSX and NBX
//! nothing that grows, the crystal router something for each of lg P steps.   [NBX paper, table of section 3; oracle A24]

mod common;

use common::{long, microbenchmark};
use treepie_model::Machine;
use treepie_sparse::{Means, Place, Protocol};

const RANKS: [u32; 3] = [64, 1024, 16_384];

/// What is held after a simulated round, on the rank that holds most. A machine without a barrier of its own.
fn simulated(protocol: Protocol, ranks: u32) -> usize {
    microbenchmark(protocol, Machine::Jaguar, ranks, 1).memory
}

/// What one rank holds at the beginning.
fn at_first(protocol: Protocol, ranks: u32) -> usize {
    protocol.begin(Place { rank: 0, ranks }, Means::default(), Vec::new()).memory()
}

/// What protocols with a table for all ranks hold does not change while they run; all tables of 16,384 ranks together are
/// gigabytes.
fn tables(protocol: Protocol) -> [usize; 3] {
    RANKS.map(|ranks| {
        let first = at_first(protocol, ranks);
        if ranks < 10_000 || long() {
            assert_eq!(simulated(protocol, ranks), first, "{protocol} on {ranks} ranks");
        }
        first
    })
}

/// Bytes for each rank, if it is the same from each number of ranks to the next.
fn slope(held: [usize; 3]) -> usize {
    let slope = |from: usize| {
        let (more, ranks) = (held[from + 1] - held[from], (RANKS[from + 1] - RANKS[from]) as usize);
        assert_eq!(more % ranks, 0, "{held:?}");
        more / ranks
    };
    assert_eq!(slope(0), slope(1), "{held:?}");
    slope(0)
}

#[test]
fn pex_and_pcx_hold_an_entry_for_each_rank() {
    let (sizes, numbers) = (tables(Protocol::Pex), tables(Protocol::Pcx));
    assert_eq!((slope(sizes), slope(numbers)), (8, 4));
    for (held, entry) in [(sizes, 8), (numbers, 4)] {
        assert!(held[0] - entry * RANKS[0] as usize <= 256, "{held:?}");
    }
}

#[test]
fn rsx_and_nbx_hold_the_same_among_any_number_of_ranks() {
    for protocol in [Protocol::Rsx, Protocol::Nbx] {
        let held = RANKS.map(|ranks| simulated(protocol, ranks));
        assert!(held[0] <= 128 && held.iter().all(|bytes| *bytes == held[0]), "{protocol}: {held:?}");
    }
    let behind = RANKS.map(|ranks| at_first(Protocol::NbxBehind, ranks));
    assert!(behind[0] <= 128 && behind.iter().all(|bytes| *bytes == behind[0]), "{behind:?}");
}

#[test]
fn the_crystal_router_holds_something_for_each_step() {
    let held = RANKS.map(|ranks| simulated(Protocol::Crystal, ranks));
    // 6, 10 and 14 steps.
    assert_eq!(held[1] - held[0], held[2] - held[1], "{held:?}");
    let step = (held[1] - held[0]) / 4;
    assert!((64..=256).contains(&step) && held[0] - 6 * step <= 256, "{held:?}");
}

#[test]
fn a_barrier_over_all_channels_holds_two_bits_for_each_rank() {
    let [few, many] = [64, 1024].map(|ranks| simulated(Protocol::NbxAllChannels, ranks));
    assert_eq!(many - few, (1024 - 64) / 4);
    // Those who get several messages cost more, and only those.
    let several = |count| {
        let messages = (0..count).map(|_| (1, Vec::<u8>::new().into())).collect();
        Protocol::NbxAllChannels.begin(Place { rank: 0, ranks: 64 }, Means::default(), messages).memory()
    };
    assert_eq!(several(1), several(0));
    assert!(several(2) > several(1));
}
