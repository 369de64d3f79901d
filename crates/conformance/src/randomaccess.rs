//! RandomAccess by every algorithm, and with every refinement: no update is lost, doubled or applied in the wrong place.

use treepie::Comm;
use treepie::randomaccess::{ALGORITHMS, Algorithm, Dimensions, Order, RandomAccess, Refinements};

use crate::check::{Failure, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("randomaccess/every-algorithm", 1, every_algorithm),
    Case::new("randomaccess/every-refinement", 1, every_refinement),
    Case::new("randomaccess/any-table", 1, any_table),
    Case::new("randomaccess/refused", 1, refused),
];

/// Whether an algorithm runs on this communicator.
fn applies(algorithm: &Algorithm, comm: &Comm) -> bool {
    let needs_torus = *algorithm == Algorithm::Hypercube(Order::Morton);
    let is_torus = comm.network().is_ok_and(|network| network.as_torus().is_some());
    RandomAccess::new(1 << 12).algorithm(algorithm.clone()).check(comm.size() as u32).is_ok()
        && (is_torus || !needs_torus)
}

fn algorithms(comm: &Comm) -> impl Iterator<Item = Algorithm> {
    let all = ALGORITHMS.map(|(id, _)| id.parse().expect("its own id")).into_iter().chain([Algorithm::Auto]);
    all.filter(|algorithm| applies(algorithm, comm))
}

/// Runs it and expects no wrong word, and nothing discarded.
fn is_right(comm: &Comm, settings: RandomAccess, what: &str) -> Result<(), Failure> {
    let result = settings.run(comm).map_err(|error| Failure::from(error).context(what))?;
    check_eq!(result.errors, Some(0), "{what}");
    check_eq!(result.total.discarded, 0, "{what}");
    Ok(())
}

fn every_algorithm(comm: &Comm) -> Result<(), Failure> {
    for algorithm in algorithms(comm) {
        for look_ahead in [1, 7, 1024] {
            let what = format!("{algorithm}, look-ahead {look_ahead}");
            let words = if look_ahead == 1 { 1 << 8 } else { 1 << 12 };
            is_right(comm, RandomAccess::new(words).look_ahead(look_ahead).algorithm(algorithm.clone()), &what)?;
        }
    }
    // By a network that the handle assumes, ranks have other numbers.
    if comm.size() == 8 {
        let comm = comm.with_network("torus:4x2")?;
        let morton = Algorithm::Hypercube(Order::Morton);
        is_right(&comm, RandomAccess::new(1 << 12).algorithm(morton), "in Morton order")?;
    }
    Ok(())
}

/// All combinations but for `discard`, under which updates are lost, and `adaptive` with few others.
fn every_refinement(comm: &Comm) -> Result<(), Failure> {
    let grid = Algorithm::Alltoall(Dimensions::All);
    for bits in 0..66 {
        let bit = |bit: u32| bits >> bit & 1 == 1;
        let [prepost, deferred, late_wait, double_buffer, overlap, persistent] = [0, 1, 2, 3, 4, 5].map(bit);
        // Trials need many rounds, so there are few of them.
        let adaptive = bit(6);
        let (look_ahead, updates) = if adaptive { (2, 1100 * comm.size() as u64) } else { (64, 4096) };
        let refinements =
            Refinements { prepost, deferred, late_wait, double_buffer, persistent, overlap, adaptive, discard: false };
        for algorithm in [Algorithm::HypercubeAny, grid.clone()] {
            let what = format!("{algorithm}, {refinements}");
            let settings = RandomAccess::new(1 << 10).updates(updates).look_ahead(look_ahead).algorithm(algorithm);
            is_right(comm, settings.refinements(refinements), &what)?;
        }
    }
    // What is discarded is missing in the table.
    let refinements = Refinements { discard: true, ..Refinements::default() };
    let result = RandomAccess::new(1 << 10).look_ahead(64).refinements(refinements).algorithm(grid).run(comm)?;
    let is_lossless = result.total.discarded == 0;
    check_eq!(result.errors == Some(0), is_lossless, "{} were discarded", result.total.discarded);
    check_eq!(is_lossless, comm.size() == 1, "losses by discarding");
    Ok(())
}

/// Tables of any size.
fn any_table(comm: &Comm) -> Result<(), Failure> {
    let ranks = comm.size() as u64;
    for algorithm in algorithms(comm) {
        for words in [ranks, ranks + 1, 3 * ranks + 2, 1000 + ranks] {
            let what = format!("{algorithm}, {words} words");
            is_right(comm, RandomAccess::new(words).updates(3000).look_ahead(16).algorithm(algorithm.clone()), &what)?;
        }
        let settings = RandomAccess::new(2048).updates(0).algorithm(algorithm.clone());
        is_right(comm, settings, &format!("{algorithm}, no updates"))?;
    }
    Ok(())
}

fn refused(comm: &Comm) -> Result<(), Failure> {
    let small = RandomAccess::new(comm.size() as u64 - 1).run(comm);
    check_eq!(small.is_err(), true, "a table without words for all ranks");
    check_eq!(RandomAccess::new(1 << 10).look_ahead(0).run(comm).is_err(), true, "no look-ahead");
    if !comm.size().is_power_of_two() {
        let hypercube = RandomAccess::new(1 << 10).algorithm(Algorithm::Hypercube(Order::Ranks));
        check_eq!(hypercube.run(comm).is_err(), true, "a hypercube of {} ranks", comm.size());
    }
    comm.barrier()?;
    Ok(())
}
