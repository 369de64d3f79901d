//! Protocol memory of a rank without messages, as the protocols report it: an entry per rank for PEX and PCX, constant
//! for RSX and NBX, proportional to the lg P steps for the crystal router.   [NBX paper, section 3; oracle A24]

use crate::common::{is_long_run, microbenchmark};
use treepie_model::PaperMachine;
use treepie_sparse::{ExchangeProtocol, ExchangeRoutes, ReactorCapabilities, RingPosition};

const RANKS: [u32; 3] = [64, 1024, 16_384];

/// Memory after a simulated round, maximum over ranks, on a machine without hardware barrier.
fn simulated(protocol: ExchangeProtocol, ranks: u32) -> usize {
    microbenchmark(protocol, PaperMachine::Jaguar, ranks, 1).memory
}

/// Memory of one rank at the start.
fn initial(protocol: ExchangeProtocol, ranks: u32) -> usize {
    protocol
        .begin(RingPosition { rank: 0, ranks }, ReactorCapabilities::default(), &ExchangeRoutes::default(), Vec::new())
        .memory()
}

/// The memory of protocols with a table of all ranks does not change while they run; the tables of 16,384 ranks
/// together take gigabytes.
fn tables(protocol: ExchangeProtocol) -> [usize; 3] {
    RANKS.map(|ranks| {
        let first = initial(protocol, ranks);
        if ranks < 10_000 || is_long_run() {
            assert_eq!(simulated(protocol, ranks), first, "{protocol} on {ranks} ranks");
        }
        first
    })
}

/// Bytes per rank; checks that the growth is linear.
fn slope(bytes: [usize; 3]) -> usize {
    let slope = |from: usize| {
        let (more, ranks) = (bytes[from + 1] - bytes[from], (RANKS[from + 1] - RANKS[from]) as usize);
        assert_eq!(more % ranks, 0, "{bytes:?}");
        more / ranks
    };
    assert_eq!(slope(0), slope(1), "{bytes:?}");
    slope(0)
}

#[test]
fn pex_and_pcx_hold_an_entry_per_rank() {
    let (sizes, counts) = (tables(ExchangeProtocol::Pex), tables(ExchangeProtocol::Pcx));
    assert_eq!((slope(sizes), slope(counts)), (8, 4));
    for (bytes, entry) in [(sizes, 8), (counts, 4)] {
        assert!(bytes[0] - entry * RANKS[0] as usize <= 256, "{bytes:?}");
    }
}

#[test]
fn rsx_and_nbx_take_constant_memory() {
    for protocol in [ExchangeProtocol::Rsx, ExchangeProtocol::Nbx] {
        let bytes = RANKS.map(|ranks| simulated(protocol, ranks));
        assert!(bytes[0] <= 128 && bytes.iter().all(|other| *other == bytes[0]), "{protocol}: {bytes:?}");
    }
    let ordered = RANKS.map(|ranks| initial(ExchangeProtocol::NbxOrderedBarrier, ranks));
    assert!(ordered[0] <= 128 && ordered.iter().all(|other| *other == ordered[0]), "{ordered:?}");
}

#[test]
fn the_crystal_router_holds_an_entry_per_step() {
    let bytes = RANKS.map(|ranks| simulated(ExchangeProtocol::Crystal, ranks));
    // 6, 10 and 14 steps.
    assert_eq!(bytes[1] - bytes[0], bytes[2] - bytes[1], "{bytes:?}");
    let step = (bytes[1] - bytes[0]) / 4;
    assert!((64..=256).contains(&step) && bytes[0] - 6 * step <= 256, "{bytes:?}");
}

#[test]
fn a_barrier_over_all_channels_holds_two_bits_per_rank() {
    let [few, many] = [64, 1024].map(|ranks| simulated(ExchangeProtocol::NbxAllChannels, ranks));
    assert_eq!(many - few, (1024 - 64) / 4);
    // Only destinations of several messages cost more.
    let several = |count| {
        let messages = (0..count).map(|_| (1, Vec::<u8>::new().into())).collect();
        ExchangeProtocol::NbxAllChannels
            .begin(
                RingPosition { rank: 0, ranks: 64 },
                ReactorCapabilities::default(),
                &ExchangeRoutes::default(),
                messages,
            )
            .memory()
    };
    assert_eq!(several(1), several(0));
    assert!(several(2) > several(1));
}
