//! Cartesian and graph topologies, `split_type` and names, compared with what every rank can compute.

use std::collections::BTreeSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, Cartesian, Comm, Error, Rank, SplitType, Sum, dims_create};

use crate::check::{Outcome, check, check_eq};
use crate::splits::check_members;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("topologies/names-are-those-of-the-communicator", 1, names),
    Case::new("topologies/ranks-of-a-host", 1, hosts),
    Case::new("topologies/ranks-of-a-cluster", 1, clusters),
    Case::new("topologies/ranks-of-a-leaf", 1, leaves),
    Case::new("topologies/split-types-that-a-network-lacks", 1, no_such_level),
    Case::new("topologies/coordinates-and-ranks-of-a-grid", 1, grids),
    Case::new("topologies/halos-of-a-grid", 1, halos),
    Case::new("topologies/rows-and-planes-of-a-grid", 1, parts_of_grids),
    Case::new("topologies/bad-grids-are-refused", 1, bad_grids),
    Case::new("topologies/different-grids-are-an-error", 2, different_grids),
    Case::new("topologies/sources-of-a-graph-are-found", 1, graphs),
    Case::new("topologies/bad-edges-are-an-error-on-all", 1, bad_graphs),
    Case::new("topologies/on-both-halves-at-once", 2, on_halves),
];

fn names(comm: &Comm) -> Outcome {
    check_eq!(comm.name(), None, "the name at first");
    let (handle, other) = (comm.with_algorithm("allgather/ring")?, comm.dup()?);
    comm.set_name("rows");
    check_eq!((handle.name().as_deref(), other.name()), (Some("rows"), None), "names of another handle and of a dup");
    let text = format!("Comm(\"rows\", rank {} of {}, context ", comm.rank(), comm.size());
    check!(format!("{handle:?}").starts_with(&text), "{handle:?}");
    handle.set_name(String::from("columns"));
    check_eq!(comm.name().as_deref(), Some("columns"), "the other name");
    Ok(())
}

/// The ranks that have the same value as this one, highest rank first.
fn ranks_with_same_value<T: PartialEq>(comm: &Comm, value: impl Fn(Rank) -> T) -> Vec<Rank> {
    let local = value(comm.rank());
    (0..comm.size()).rev().filter(|rank| value(*rank) == local).collect()
}

fn hosts(comm: &Comm) -> Outcome {
    let part = comm.split_type(SplitType::Host, -(comm.rank() as i32))?;
    let expected = match comm.engine() {
        "sim" => vec![comm.rank()],
        // Hosts have different names; the other engines have one host.
        "mpi" => {
            let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
            let mut padded = [0u8; 64];
            padded.iter_mut().zip(&name).for_each(|(to, byte)| *to = *byte);
            let all = comm.allgather(&padded)?;
            ranks_with_same_value(comm, |rank| all[rank * 64..][..64].to_vec())
        }
        _ => ranks_with_same_value(comm, |_| ()),
    };
    check_members(&part, comm.rank(), &expected)
}

fn clusters(comm: &Comm) -> Outcome {
    // Clusters of 1, 2, 3 ranks and so on; the last one has the rest.
    let mut clusters = Vec::new();
    while clusters.len() < comm.size() {
        let cluster = clusters.last().map_or(0, |last| last + 1);
        clusters.resize((clusters.len() + cluster + 1).min(comm.size()), cluster);
    }
    let sizes = (0..=clusters[comm.size() - 1]).map(|which| clusters.iter().filter(|it| **it == which).count());
    let network = format!("clusters:{}", sizes.map(|size| size.to_string()).collect::<Vec<_>>().join("+"));
    let part = comm.with_network(&network)?.split_type(SplitType::Cluster, -(comm.rank() as i32))?;
    check_members(&part, comm.rank(), &ranks_with_same_value(comm, |rank| clusters[rank]))?;
    check_eq!(part.allreduce(&[1], Sum)?, [part.size()], "a sum in a cluster");
    Ok(())
}

fn leaves(comm: &Comm) -> Outcome {
    // Ranks on nodes in reverse order.
    let nodes: Vec<usize> = (0..comm.size()).map(|rank| comm.size() - 1 - rank).collect();
    let texts: Vec<String> = nodes.iter().map(usize::to_string).collect();
    let network = format!("clos:r8,t3,n{}@{}", comm.size(), texts.join("+"));
    let part = comm.with_network(&network)?.split_type(SplitType::Leaf, -(comm.rank() as i32))?;
    check_members(&part, comm.rank(), &ranks_with_same_value(comm, |rank| nodes[rank] / 3))
}

fn no_such_level(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let flat = comm.with_network(&format!("flat:{ranks}"))?;
    let clos = comm.with_network(&format!("clos:r8,t3,n{ranks}"))?;
    let tried = [
        (&flat, SplitType::Cluster, "clusters"),
        (&flat, SplitType::Leaf, "leaf switches"),
        (&clos, SplitType::Cluster, "clusters"),
    ];
    for (handle, level, what) in tried {
        let text = handle.split_type(level, 0).err().map_or(String::new(), |error| error.to_string());
        check!(text.contains(&format!("has no {what}")), "{level:?}: {text}");
    }
    // The others do not wait for one rank that passes such a network.
    let handle = if comm.rank() == 0 { flat } else { comm.with_network(&format!("clusters:{ranks}"))? };
    let part = handle.split_type(SplitType::Cluster, 0);
    match part {
        Ok(part) => check_members(&part, comm.rank(), &(1..ranks).collect::<Vec<_>>())?,
        Err(error) => check!(comm.rank() == 0 || comm.is_checked(), "clusters without rank 0: {error}"),
    }
    check_eq!(comm.allreduce(&[1], Sum)?, [ranks], "a sum afterwards");
    Ok(())
}

/// Grids of all or some ranks, periodic in some dimensions.
fn shapes(ranks: usize) -> Vec<(Vec<usize>, Vec<bool>)> {
    let mut shapes =
        vec![(vec![], vec![]), (vec![1, ranks, 1], vec![false, true, true]), (vec![ranks.div_ceil(2)], vec![true])];
    for dimensions in 1..=3 {
        let dims = dims_create(ranks, dimensions);
        shapes.push((dims.clone(), (0..dimensions).map(|at| at % 2 == 0).collect()));
        shapes.push((dims, (0..dimensions).map(|at| at % 2 == 1).collect()));
    }
    shapes
}

/// The coordinates of all ranks, in row-major order.
fn all_coordinates(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![vec![]], |all, side| {
        all.iter().flat_map(|coords| (0..*side).map(|last| [coords.clone(), vec![last]].concat())).collect()
    })
}

fn grids(comm: &Comm) -> Outcome {
    for (dims, periodic) in shapes(comm.size()) {
        let coordinates = all_coordinates(&dims);
        let grid = comm.cart_create(&dims, &periodic)?;
        check_eq!(grid.is_some(), comm.rank() < coordinates.len(), "whether this rank is in the grid {dims:?}");
        let Some(grid) = grid else { continue };
        check_eq!((grid.dims(), grid.periodic()), (&dims[..], &periodic[..]), "the grid");
        check_members(&grid, comm.rank(), &(0..coordinates.len()).collect::<Vec<_>>())?;
        for (rank, coords) in coordinates.iter().enumerate() {
            check_eq!(&grid.coords(rank)?, coords, "the coordinates of rank {rank} in {dims:?}");
        }
        check_eq!(grid.coords(coordinates.len()).err().is_some(), true, "the coordinates of a rank out of range");
        for dimension in 0..dims.len() {
            for by in [0, 1, -1, 2, dims[dimension] as isize, isize::MAX, isize::MIN] {
                let (source, destination) = grid.shift(dimension, by);
                let want = |sign: i128| {
                    let there = coordinates[grid.rank()][dimension] as i128 + sign * by as i128;
                    let side = dims[dimension] as i128;
                    let there = if periodic[dimension] { there.rem_euclid(side) } else { there };
                    let mut coords = coordinates[grid.rank()].clone();
                    coords[dimension] = usize::try_from(there).ok()?;
                    coordinates.iter().position(|other| *other == coords)
                };
                check_eq!(
                    (source, destination),
                    (want(-1), want(1)),
                    "{by} along {dimension} in {dims:?} {periodic:?}"
                );
            }
            let pair = grid.shift(dimension, 1);
            check_eq!(grid.neighbors()[2 * dimension..][..2], [pair.0, pair.1], "neighbors along {dimension}");
        }
        check_eq!(grid.neighbors().len(), 2 * dims.len(), "neighbors");
    }
    Ok(())
}

fn halos(comm: &Comm) -> Outcome {
    for (dims, periodic) in shapes(comm.size()) {
        let Some(grid) = comm.cart_create(&dims, &periodic)? else { continue };
        for dimension in 0..dims.len() {
            let (source, destination) = grid.shift(dimension, 1);
            let sent = destination.map(|to| grid.isend(vec![grid.rank() as u64], to, dimension as u32)).transpose()?;
            if let Some(source) = source {
                let (got, _) = grid.recv_vec::<u64>(ANY_SOURCE, dimension as u32)?;
                check_eq!(got, [source as u64], "the message along {dimension} in {dims:?}");
            }
            sent.map(|sent| sent.wait()).transpose()?;
        }
    }
    Ok(())
}

fn parts_of_grids(comm: &Comm) -> Outcome {
    let dims = dims_create(comm.size(), 3);
    let grid = comm.cart_create(&dims, &[true, false, true])?.expect("every rank is in the grid");
    let coordinates = all_coordinates(&dims);
    for bits in 0..8 {
        let keep = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
        let part: Cartesian = grid.sub(&keep)?;
        let kept =
            |list: &[usize]| list.iter().zip(keep).filter(|(_, keep)| *keep).map(|(it, _)| *it).collect::<Vec<_>>();
        let dropped = |rank: Rank| {
            coordinates[rank].iter().zip(keep).filter(|(_, keep)| !keep).map(|(it, _)| *it).collect::<Vec<_>>()
        };
        let mut expected = ranks_with_same_value(comm, dropped);
        expected.reverse();
        check_members(&part, comm.rank(), &expected)?;
        check_eq!(part.dims(), kept(&dims), "dims of the subgrid {keep:?}");
        check_eq!(
            part.coords(part.rank())?,
            kept(&coordinates[comm.rank()]),
            "the coordinates in the subgrid {keep:?}"
        );
        let periodic: Vec<bool> =
            [true, false, true].into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(it, _)| it).collect();
        check_eq!(part.periodic(), periodic, "periodic dimensions of the subgrid {keep:?}");
    }
    let short = grid.sub(&[true]).err();
    check_eq!(
        short,
        Some(Error::BadLength { what: "the list of dimensions to keep", got: 1, expected: 3 }),
        "too short a list"
    );
    check_eq!(grid.allreduce(&[1], Sum)?, [comm.size()], "a sum afterwards");
    Ok(())
}

fn bad_grids(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let error =
        |dims: &[usize], periodic: &[bool]| comm.cart_create(dims, periodic).err().map(|error| error.to_string());
    let text = format!("a grid of {}x1 needs more than the {ranks} ranks", ranks + 1);
    check_eq!(error(&[ranks + 1, 1], &[true, true]), Some(text), "too many ranks");
    check!(error(&[usize::MAX, usize::MAX], &[true, true]).is_some(), "a size that overflows");
    check_eq!(error(&[ranks, 0], &[true, true]), Some(format!("a grid of {ranks}x0 is empty")), "a side of 0");
    check!(error(&[1], &[]).is_some(), "a list of periodic dimensions that is too short");
    // If a grid is refused on one rank only, the others do not wait for it.
    let side = if comm.rank() == 0 { ranks + 1 } else { ranks };
    check!(comm.cart_create(&[side], &[true]).is_err(), "a grid that is refused on rank 0");
    check_eq!(comm.allreduce(&[1], Sum)?, [ranks], "a sum afterwards");
    Ok(())
}

fn different_grids(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    let (rows, columns) = ([ranks, 1], [1, ranks]);
    let dims = if comm.rank() == ranks - 1 { rows } else { columns };
    check!(comm.cart_create(&dims, &[true, true]).is_err(), "different grids");
    check!(comm.cart_create(&rows, &[true, comm.rank() == 0]).is_err(), "different periodic dimensions");
    let grid = comm.cart_create(&rows, &[true, true])?.expect("every rank is in the grid");
    check!(grid.sub(&[comm.rank() == 0, true]).is_err() || comm.rank() != 0, "different dimensions kept");
    check_eq!(grid.allreduce(&[1], Sum)?, [ranks], "a sum afterwards");
    // Rows and columns have the same size, and ranks 0 and 3 share no row or column.
    if ranks >= 4
        && let Some(square) = comm.cart_create(&[2, 2], &[true, true])?
    {
        let keeps_rows = [0, 3].contains(&comm.rank());
        check!(square.sub(&[keeps_rows, !keeps_rows]).is_err(), "different dimensions of the same size kept");
        check_eq!(square.allreduce(&[1], Sum)?, [4], "a sum afterwards");
    }
    Ok(())
}

/// Random destinations of a rank, some of them repeated.
fn destinations_of(seed: u64, rank: Rank, ranks: usize) -> Vec<Rank> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000_003 + rank as u64);
    let edges = random.next_u64() % 5;
    (0..edges).map(|_| random.next_u64() as usize % ranks).collect()
}

fn graphs(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    for seed in 0..5 {
        let destinations = destinations_of(seed, comm.rank(), ranks);
        let sources: Vec<Rank> = (0..ranks)
            .flat_map(|from| {
                destinations_of(seed, from, ranks).into_iter().filter(|to| *to == comm.rank()).map(move |_| from)
            })
            .collect();
        let graph = comm.dist_graph_create(&destinations)?;
        check_eq!(graph.sources(), sources, "sources of graph {seed}");
        let adjacent = comm.dist_graph_create_adjacent(&sources, &destinations)?;
        for graph in [&graph, &adjacent] {
            check_eq!((graph.sources(), graph.destinations()), (&sources[..], &destinations[..]), "graph {seed}");
            check_members(graph, comm.rank(), &(0..ranks).collect::<Vec<_>>())?;
        }
        // Messages on both at once do not cross.
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
        check_eq!(comm.dist_graph_create(list).err(), bad, "an edge of rank {who} to a rank out of range");
        check_eq!(
            comm.dist_graph_create_adjacent(list, &[0]).err(),
            bad,
            "an edge to rank {who} from a rank out of range"
        );
        check_eq!(
            comm.dist_graph_create_adjacent(&[], list).err(),
            bad,
            "an edge of rank {who} to a rank out of range"
        );
    }
    check_eq!(comm.allreduce(&[1], Sum)?, [ranks], "a sum afterwards");
    Ok(())
}

fn on_halves(comm: &Comm) -> Outcome {
    let half = comm.split(comm.rank() as u32 % 2, -(comm.rank() as i32))?.expect("every rank has a color");
    half.set_name(format!("half {}", comm.rank() % 2));
    grids(&half)?;
    graphs(&half)?;
    parts_of_grids(&half)?;
    clusters(&half)
}
