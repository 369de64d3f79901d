//! Grids, graphs, levels of networks, and names, compared with what every rank can work out.

use std::collections::BTreeSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, Cartesian, Comm, Error, Level, Rank, Sum, balanced_dims};

use crate::check::{Outcome, check, check_eq};
use crate::splits::check_members;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("topologies/names-are-those-of-the-communicator", 1, names),
    Case::new("topologies/ranks-of-a-host", 1, hosts),
    Case::new("topologies/ranks-of-a-cluster", 1, clusters),
    Case::new("topologies/ranks-of-a-leaf", 1, leaves),
    Case::new("topologies/levels-that-are-not-there", 1, no_such_level),
    Case::new("topologies/places-and-ranks-of-a-grid", 1, grids),
    Case::new("topologies/halos-of-a-grid", 1, halos),
    Case::new("topologies/rows-and-planes-of-a-grid", 1, parts_of_grids),
    Case::new("topologies/grids-that-cannot-be", 1, bad_grids),
    Case::new("topologies/ranks-that-disagree-about-a-grid", 2, different_grids),
    Case::new("topologies/sources-of-a-graph-are-found", 1, graphs),
    Case::new("topologies/bad-edges-are-told-to-all", 1, bad_graphs),
    Case::new("topologies/on-both-halves-at-once", 2, on_halves),
];

fn names(comm: &Comm) -> Outcome {
    check_eq!(comm.name(), None, "the name at first");
    let (handle, other) = (comm.using("allgather/ring")?, comm.dup()?);
    comm.set_name("rows");
    check_eq!((handle.name().as_deref(), other.name()), (Some("rows"), None), "names of another handle and of a dup");
    let text = format!("Comm(\"rows\", rank {} of {}, context ", comm.rank(), comm.size());
    check!(format!("{handle:?}").starts_with(&text), "{handle:?}");
    handle.set_name(String::from("columns"));
    check_eq!(comm.name().as_deref(), Some("columns"), "the other name");
    Ok(())
}

/// Those of all ranks that have the same value as this one, highest rank first.
fn like_this<T: PartialEq>(comm: &Comm, value: impl Fn(Rank) -> T) -> Vec<Rank> {
    let own = value(comm.rank());
    (0..comm.size()).rev().filter(|rank| value(*rank) == own).collect()
}

fn hosts(comm: &Comm) -> Outcome {
    let part = comm.split_by(Level::Host, -(comm.rank() as i32))?;
    let expected = match comm.engine() {
        "sim" => vec![comm.rank()],
        // Hosts have different names, and other engines have one host.
        "mpi" => {
            let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
            let mut own = [0u8; 64];
            own.iter_mut().zip(&name).for_each(|(own, byte)| *own = *byte);
            let all = comm.all_gather(&own)?;
            like_this(comm, |rank| all[rank * 64..][..64].to_vec())
        }
        _ => like_this(comm, |_| ()),
    };
    check_members(&part, comm.rank(), &expected)
}

fn clusters(comm: &Comm) -> Outcome {
    // Sizes 1, 2, 3 and so on, and what is left.
    let mut clusters = Vec::new();
    while clusters.len() < comm.size() {
        let cluster = clusters.last().map_or(0, |last| last + 1);
        clusters.resize((clusters.len() + cluster + 1).min(comm.size()), cluster);
    }
    let sizes = (0..=clusters[comm.size() - 1]).map(|which| clusters.iter().filter(|it| **it == which).count());
    let network = format!("clusters:{}", sizes.map(|size| size.to_string()).collect::<Vec<_>>().join("+"));
    let part = comm.on(&network)?.split_by(Level::Cluster, -(comm.rank() as i32))?;
    check_members(&part, comm.rank(), &like_this(comm, |rank| clusters[rank]))?;
    check_eq!(part.all_reduce(&[1], Sum)?, [part.size()], "a sum in a cluster");
    Ok(())
}

fn leaves(comm: &Comm) -> Outcome {
    // Each rank at another place than its number.
    let places: Vec<usize> = (0..comm.size()).map(|rank| comm.size() - 1 - rank).collect();
    let texts: Vec<String> = places.iter().map(usize::to_string).collect();
    let network = format!("clos:r8,t3,n{}@{}", comm.size(), texts.join("+"));
    let part = comm.on(&network)?.split_by(Level::Leaf, -(comm.rank() as i32))?;
    check_members(&part, comm.rank(), &like_this(comm, |rank| places[rank] / 3))
}

fn no_such_level(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let flat = comm.on(&format!("flat:{ranks}"))?;
    let clos = comm.on(&format!("clos:r8,t3,n{ranks}"))?;
    let tried = [
        (&flat, Level::Cluster, "clusters"),
        (&flat, Level::Leaf, "leaf switches"),
        (&clos, Level::Cluster, "clusters"),
    ];
    for (handle, level, what) in tried {
        let text = handle.split_by(level, 0).err().map_or(String::new(), |error| error.to_string());
        check!(text.contains(&format!("has no {what}")), "{level:?}: {text}");
    }
    // Others do not wait for a rank that names such a network alone.
    let handle = if comm.rank() == 0 { flat } else { comm.on(&format!("clusters:{ranks}"))? };
    let part = handle.split_by(Level::Cluster, 0);
    match part {
        Ok(part) => check_members(&part, comm.rank(), &(1..ranks).collect::<Vec<_>>())?,
        Err(error) => check!(comm.rank() == 0 || comm.is_checked(), "clusters without rank 0: {error}"),
    }
    check_eq!(comm.all_reduce(&[1], Sum)?, [ranks], "a sum afterwards");
    Ok(())
}

/// Grids of all ranks or some of them, with rings in some dimensions.
fn shapes(ranks: usize) -> Vec<(Vec<usize>, Vec<bool>)> {
    let mut shapes =
        vec![(vec![], vec![]), (vec![1, ranks, 1], vec![false, true, true]), (vec![ranks.div_ceil(2)], vec![true])];
    for dimensions in 1..=3 {
        let dims = balanced_dims(ranks, dimensions);
        shapes.push((dims.clone(), (0..dimensions).map(|at| at % 2 == 0).collect()));
        shapes.push((dims, (0..dimensions).map(|at| at % 2 == 1).collect()));
    }
    shapes
}

/// The place of a rank and the rank at a place, worked out one place after the other.
fn all_places(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![vec![]], |places, side| {
        places.iter().flat_map(|place| (0..*side).map(|last| [place.clone(), vec![last]].concat())).collect()
    })
}

fn grids(comm: &Comm) -> Outcome {
    for (dims, periodic) in shapes(comm.size()) {
        let places = all_places(&dims);
        let grid = comm.cartesian(&dims, &periodic)?;
        check_eq!(grid.is_some(), comm.rank() < places.len(), "whether there is a place in {dims:?}");
        let Some(grid) = grid else { continue };
        check_eq!((grid.dims(), grid.periodic()), (&dims[..], &periodic[..]), "the grid");
        check_members(&grid, comm.rank(), &(0..places.len()).collect::<Vec<_>>())?;
        for (rank, place) in places.iter().enumerate() {
            check_eq!(&grid.coordinates(rank)?, place, "the place of rank {rank} in {dims:?}");
        }
        check_eq!(grid.coordinates(places.len()).err().is_some(), true, "the place of nobody");
        for dimension in 0..dims.len() {
            for by in [0, 1, -1, 2, dims[dimension] as isize, isize::MAX, isize::MIN] {
                let (source, destination) = grid.shift(dimension, by);
                let want = |sign: i128| {
                    let there = places[grid.rank()][dimension] as i128 + sign * by as i128;
                    let side = dims[dimension] as i128;
                    let there = if periodic[dimension] { there.rem_euclid(side) } else { there };
                    let mut place = places[grid.rank()].clone();
                    place[dimension] = usize::try_from(there).ok()?;
                    places.iter().position(|other| *other == place)
                };
                check_eq!(
                    (source, destination),
                    (want(-1), want(1)),
                    "{by} along {dimension} in {dims:?} {periodic:?}"
                );
            }
            let pair = grid.shift(dimension, 1);
            check_eq!(grid.neighbours()[2 * dimension..][..2], [pair.0, pair.1], "neighbours along {dimension}");
        }
        check_eq!(grid.neighbours().len(), 2 * dims.len(), "neighbours");
    }
    Ok(())
}

fn halos(comm: &Comm) -> Outcome {
    for (dims, periodic) in shapes(comm.size()) {
        let Some(grid) = comm.cartesian(&dims, &periodic)? else { continue };
        for dimension in 0..dims.len() {
            let (source, destination) = grid.shift(dimension, 1);
            let sent = destination.map(|to| grid.isend(vec![grid.rank() as u64], to, dimension as u32)).transpose()?;
            if let Some(source) = source {
                let (got, _) = grid.recv_vec::<u64>(ANY_SOURCE, dimension as u32)?;
                check_eq!(got, [source as u64], "what came along {dimension} in {dims:?}");
            }
            sent.map(|sent| sent.wait()).transpose()?;
        }
    }
    Ok(())
}

fn parts_of_grids(comm: &Comm) -> Outcome {
    let dims = balanced_dims(comm.size(), 3);
    let grid = comm.cartesian(&dims, &[true, false, true])?.expect("all have a place");
    let places = all_places(&dims);
    for bits in 0..8 {
        let keep = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
        let part: Cartesian = grid.sub(&keep)?;
        let kept =
            |list: &[usize]| list.iter().zip(keep).filter(|(_, keep)| *keep).map(|(it, _)| *it).collect::<Vec<_>>();
        let dropped =
            |rank: Rank| places[rank].iter().zip(keep).filter(|(_, keep)| !keep).map(|(it, _)| *it).collect::<Vec<_>>();
        let mut expected = like_this(comm, dropped);
        expected.reverse();
        check_members(&part, comm.rank(), &expected)?;
        check_eq!(part.dims(), kept(&dims), "sides of what {keep:?} keeps");
        check_eq!(part.coordinates(part.rank())?, kept(&places[comm.rank()]), "the place in what {keep:?} keeps");
        let rings: Vec<bool> =
            [true, false, true].into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(it, _)| it).collect();
        check_eq!(part.periodic(), rings, "rings of what {keep:?} keeps");
    }
    let short = grid.sub(&[true]).err();
    check_eq!(
        short,
        Some(Error::BadLength { what: "what to keep of a grid", got: 1, expected: 3 }),
        "too short a list"
    );
    check_eq!(grid.all_reduce(&[1], Sum)?, [comm.size()], "a sum afterwards");
    Ok(())
}

fn bad_grids(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let error = |dims: &[usize], periodic: &[bool]| comm.cartesian(dims, periodic).err().map(|error| error.to_string());
    let text = format!("a grid of {}x1 has more places than the {ranks} ranks", ranks + 1);
    check_eq!(error(&[ranks + 1, 1], &[true, true]), Some(text), "too many places");
    check!(error(&[usize::MAX, usize::MAX], &[true, true]).is_some(), "more places than can be counted");
    check_eq!(error(&[ranks, 0], &[true, true]), Some(format!("a grid of {ranks}x0 has no places")), "a side of 0");
    check!(error(&[1], &[]).is_some(), "a dimension that is neither ring nor line");
    // One that cannot be on one rank only does not keep the others waiting.
    let side = if comm.rank() == 0 { ranks + 1 } else { ranks };
    check!(comm.cartesian(&[side], &[true]).is_err(), "a grid that rank 0 cannot ask for");
    check_eq!(comm.all_reduce(&[1], Sum)?, [ranks], "a sum afterwards");
    Ok(())
}

fn different_grids(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let (rows, columns) = ([ranks, 1], [1, ranks]);
    let dims = if comm.rank() == ranks - 1 { rows } else { columns };
    check!(comm.cartesian(&dims, &[true, true]).is_err(), "ranks that ask for different grids");
    check!(comm.cartesian(&rows, &[true, comm.rank() == 0]).is_err(), "ranks that ask for different rings");
    let grid = comm.cartesian(&rows, &[true, true])?.expect("all have a place");
    check!(grid.sub(&[comm.rank() == 0, true]).is_err() || comm.rank() != 0, "ranks that keep different dimensions");
    check_eq!(grid.all_reduce(&[1], Sum)?, [ranks], "a sum afterwards");
    // Row 0 has as many ranks as column 0, and ranks 0 and 3 are in no row or column together with another one.
    if ranks >= 4
        && let Some(square) = comm.cartesian(&[2, 2], &[true, true])?
    {
        let keeps_rows = [0, 3].contains(&comm.rank());
        check!(square.sub(&[keeps_rows, !keeps_rows]).is_err(), "ranks that keep as much of other dimensions");
        check_eq!(square.all_reduce(&[1], Sum)?, [4], "a sum afterwards");
    }
    Ok(())
}

/// Whom a rank sends to, some of them several times.
fn drawn(seed: u64, rank: Rank, ranks: usize) -> Vec<Rank> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000_003 + rank as u64);
    let edges = random.next_u64() % 5;
    (0..edges).map(|_| random.next_u64() as usize % ranks).collect()
}

fn graphs(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    for seed in 0..5 {
        let destinations = drawn(seed, comm.rank(), ranks);
        let sources: Vec<Rank> = (0..ranks)
            .flat_map(|from| drawn(seed, from, ranks).into_iter().filter(|to| *to == comm.rank()).map(move |_| from))
            .collect();
        let graph = comm.graph(&destinations)?;
        check_eq!(graph.sources(), sources, "sources of graph {seed}");
        let adjacent = comm.graph_adjacent(&sources, &destinations)?;
        for graph in [&graph, &adjacent] {
            check_eq!((graph.sources(), graph.destinations()), (&sources[..], &destinations[..]), "graph {seed}");
            check_members(graph, comm.rank(), &(0..ranks).collect::<Vec<_>>())?;
        }
        // On both at once, and each gets its own.
        let mut sent = Vec::new();
        for (graph, mark) in [(&graph, 1u64), (&adjacent, 2)] {
            for to in graph.destinations() {
                sent.push(graph.isend(vec![mark], *to, 0)?);
            }
        }
        for (graph, mark) in [(&adjacent, 2u64), (&graph, 1)] {
            for from in graph.sources() {
                check_eq!(graph.recv_vec::<u64>(*from, 0)?.0, [mark], "a message along an edge");
            }
        }
        sent.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
    }
    Ok(())
}

fn bad_graphs(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let bad = Some(Error::BadRank { rank: ranks + 1, size: ranks });
    for who in BTreeSet::from([0, ranks / 2, ranks - 1]) {
        let list: &[Rank] = if comm.rank() == who { &[0, ranks + 1] } else { &[0] };
        check_eq!(comm.graph(list).err(), bad, "an edge of rank {who} to nobody");
        check_eq!(comm.graph_adjacent(list, &[0]).err(), bad, "an edge to rank {who} from nobody");
        check_eq!(comm.graph_adjacent(&[], list).err(), bad, "an edge of rank {who} to nobody");
    }
    check_eq!(comm.all_reduce(&[1], Sum)?, [ranks], "a sum afterwards");
    Ok(())
}

fn on_halves(comm: &Comm) -> Outcome {
    let half = comm.split(comm.rank() as u32 % 2, -(comm.rank() as i32))?.expect("every rank has a colour");
    half.set_name(format!("half {}", comm.rank() % 2));
    grids(&half)?;
    graphs(&half)?;
    parts_of_grids(&half)?;
    clusters(&half)
}
