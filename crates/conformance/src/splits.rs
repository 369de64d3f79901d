//! `split` and `create`, compared with what every rank can compute.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, Comm, Error, Rank, SparseExchange, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("splits/random-colors-and-keys", 1, random),
    Case::new("splits/with-every-algorithm", 1, by_every_algorithm),
    Case::new("splits/split-of-split-of-split", 1, nested),
    Case::new("splits/shared-tables", 1, shared_tables),
    Case::new("splits/messages-of-siblings-do-not-cross", 2, siblings),
    Case::new("splits/rows-and-columns-work-at-once", 1, rows_and_columns),
    Case::new("splits/create-from-a-list-of-ranks", 1, listed),
    Case::new("splits/many-are-created-and-dropped", 1, many),
    Case::new("splits/ranks-are-translated", 1, translated),
    Case::new("splits/rank-tables-are-formulas-where-possible", 1, rank_tables),
    Case::new("splits/bad-groups-are-refused", 1, refused),
];

/// A random color and key of a rank; some ranks have no color.
fn color_and_key(seed: u64, rank: Rank, colors: u64) -> (Option<u32>, i32) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000_003 + rank as u64);
    let mut below = |limit: u64| random.next_u64() % limit;
    let color = below(colors + 1);
    ((color < colors).then_some(color as u32), below(4) as i32 - 2)
}

/// The ranks of a parent that have a color, in the order of their keys.
fn expected(parent: &[Rank], color: u32, color_and_key: impl Fn(Rank) -> (Option<u32>, i32)) -> Vec<Rank> {
    let with_key = parent.iter().enumerate().map(|(rank, at)| (color_and_key(rank), rank, *at));
    let mut with_key: Vec<(i32, usize, Rank)> =
        with_key.filter(|((other, _), ..)| *other == Some(color)).map(|((_, key), rank, at)| (key, rank, at)).collect();
    with_key.sort_unstable();
    with_key.into_iter().map(|(_, _, at)| at).collect()
}

/// Checks the members of a communicator; `id` is this rank's number in the communicator that all come from.
pub(crate) fn check_members(part: &Comm, id: Rank, expected: &[Rank]) -> Outcome {
    check_eq!(part.size(), expected.len(), "ranks of the communicator");
    let ids: Vec<Rank> = part.allgather(&[id as u64])?.into_iter().map(|id| id as Rank).collect();
    check_eq!(ids, expected, "ranks in order");
    check_eq!(expected[part.rank()], id, "this rank");
    Ok(())
}

fn random(comm: &Comm) -> Outcome {
    let all: Vec<Rank> = (0..comm.size()).collect();
    for seed in 0..20 {
        for colors in [1, 2, 5] {
            let (color, key) = color_and_key(seed, comm.rank(), colors);
            let part = comm.split(color, key)?;
            check_eq!(part.is_some(), color.is_some(), "whether there is a communicator");
            if let (Some(part), Some(color)) = (part, color) {
                check_members(&part, comm.rank(), &expected(&all, color, |rank| color_and_key(seed, rank, colors)))?;
            }
        }
    }
    Ok(())
}

/// Every split algorithm, with several numbers of sorters.
fn algorithms() -> Vec<String> {
    let with_sorters = ["parallel_sort", "distributed", "overlapped", "quick"]
        .into_iter()
        .flat_map(|name| [1, 2, 3, 5, 16].map(|sorters| format!("split/{name}:sorters={sorters}")));
    let plain = ["auto", "allgather_sort", "merge", "distributed", "quick"].map(|name| format!("split/{name}"));
    plain.into_iter().chain(with_sorters).collect()
}

fn by_every_algorithm(comm: &Comm) -> Outcome {
    let all: Vec<Rank> = (0..comm.size()).collect();
    for (seed, algorithm) in (100..).zip(algorithms()) {
        let handle = comm.with_algorithm(&algorithm)?;
        let (color, key) = color_and_key(seed, comm.rank(), 1 + seed % 3);
        let part = handle.split(color, key)?;
        check_eq!(part.is_some(), color.is_some(), "whether there is a communicator by {algorithm}");
        if let (Some(part), Some(color)) = (part, color) {
            check_members(&part, comm.rank(), &expected(&all, color, |rank| color_and_key(seed, rank, 1 + seed % 3)))?;
        }
    }
    Ok(())
}

/// Split algorithms with shared rank tables.
const SHARED_TABLE_ALGORITHMS: [&str; 3] =
    ["split/distributed:sorters=2", "split/overlapped:sorters=3", "split/quick:sorters=4"];

fn shared_tables(comm: &Comm) -> Outcome {
    for algorithm in SHARED_TABLE_ALGORITHMS {
        let handle = comm.with_algorithm(algorithm)?;
        // Neighbors are swapped, so that no formula describes the ranks. One rank has no color, but stores a part of
        // the table.
        let is_out = comm.rank() == 0 && comm.size() >= 5;
        let Some(part) = handle.split((!is_out).then_some(7), comm.rank() as i32 ^ 1)? else { continue };
        // Before any message on the new communicator.
        for rank in 0..comm.size() {
            let there = comm.translate_rank(rank, &part)?;
            check_eq!(there.is_none(), rank == 0 && comm.size() >= 5, "whether rank {rank} is a member");
            let back = there.map(|there| part.translate_rank(there, comm)).transpose()?.flatten();
            check_eq!(back, there.map(|_| rank), "rank {rank} and back");
        }
        if part.size() >= 3 && !comm.rank_table_kind().ends_with("table") {
            check_eq!(part.rank_table_kind(), "shared table", "{algorithm}");
        }
        let (me, size) = (part.rank(), part.size());
        // A ring, with wildcards, synchronous and long.
        for (tag, len) in [(0, 1), (1, 1000), (2, 100_000)] {
            let sent = part.isend(vec![comm.rank() as u64; len], (me + 1) % size, tag)?;
            let (got, status) = part.recv_vec::<u64>(ANY_SOURCE, tag)?;
            check_eq!((got.len(), status.source), (len, (me + size - 1) % size), "a message");
            check_eq!(
                part.translate_rank(status.source, comm)?,
                Some(got[0] as usize),
                "the source's rank in the parent"
            );
            check_eq!(comm.translate_rank(got[0] as usize, &part)?, Some(status.source), "and back");
            sent.wait()?;
        }
        let sum = part.allreduce(&[me as u64], Sum)?;
        check_eq!(sum[0], (size * (size - 1) / 2) as u64, "a sum");
        let nonblocking = part.iallgather(vec![me as u32])?;
        let got = part.exchange((0..size).map(|to| (to, vec![me as u32])))?;
        check_eq!(got.len(), size, "messages of an exchange");
        check!(got.iter().all(|(from, data)| data[0] as usize == *from), "sources of an exchange");
        check_eq!(nonblocking.wait()?, (0..size as u32).collect::<Vec<_>>(), "iallgather");
        let window = part.window::<u64>(2)?;
        window.put((me + 1) % size, 0, &[me as u64])?;
        window.fence()?;
        check_eq!(window.get_one(me, 0)?, ((me + size - 1) % size) as u64, "a put");
        window.free()?;
        let copy = part.dup()?;
        let half = copy.split(me as u32 % 2, -(me as i32))?.expect("every rank has a color");
        let order = half.allgather(&[me as u64])?;
        check!(order.iter().rev().is_sorted() && order.len() == half.size(), "ranks of a split of a split: {order:?}");
        check_eq!(comm.translate_rank(0, &part)?.is_none(), comm.size() >= 5, "whether the first rank is a member");
        drop(part);
        check_eq!(copy.allreduce(&[1u32], Sum)?[0] as usize, size, "the table outlives its first communicator");
    }
    Ok(())
}

fn nested(comm: &Comm) -> Outcome {
    for (seed, algorithm) in (0..).zip([
        "split/auto",
        "split/merge",
        "split/distributed:sorters=2",
        "split/quick:sorters=3",
        "split/parallel_sort:sorters=2",
    ]) {
        let mut part = comm.with_algorithm(algorithm)?;
        let mut ids: Vec<Rank> = (0..comm.size()).collect();
        for level in 0..3 {
            let seed = seed * 3 + level;
            let (color, key) = color_and_key(seed, part.rank(), 2);
            let Some(next) = part.split(color, key)? else { break };
            ids = expected(&ids, color.expect("there is a communicator"), |rank| color_and_key(seed, rank, 2));
            check_members(&next, comm.rank(), &ids)?;
            let sum = next.allreduce(&[comm.rank() as u64], Sum)?;
            check_eq!(sum[0], ids.iter().sum::<Rank>() as u64, "a sum on level {level}");
            part = next;
        }
    }
    Ok(())
}

/// Both halves send the same tags, and each receives only its own messages, by wildcards too.
fn siblings(comm: &Comm) -> Outcome {
    let color = comm.rank() as u32 % 2;
    let part = comm.split(color, -(comm.rank() as i32))?.expect("every rank has a color");
    let (me, size) = (part.rank(), part.size());
    for round in 0..50u64 {
        part.send(&[u64::from(color) << 32 | round], (me + 1) % size, 7)?;
        let (got, status) = part.recv_vec::<u64>(ANY_SOURCE, 7)?;
        check_eq!((got[0], status.source), (u64::from(color) << 32 | round, (me + size - 1) % size), "a message");
        let got = part.exchange([((me + 1) % size, vec![color])])?;
        check_eq!(got, [((me + size - 1) % size, vec![color])], "an exchange");
        check_eq!(part.allreduce(&[color], Sum)?[0], color * size as u32, "a sum");
    }
    part.barrier()?;
    Ok(())
}

fn rows_and_columns(comm: &Comm) -> Outcome {
    let side = (1..=comm.size()).find(|side| side * side >= comm.size()).expect("the number itself");
    let (row, column) = (comm.rank() / side, comm.rank() % side);
    let rows = comm.split(row as u32, column as i32)?.expect("every rank has a color");
    let columns = comm.split(column as u32, row as i32)?.expect("every rank has a color");
    let in_row = rows.iallreduce(vec![comm.rank() as u64], Sum)?;
    let in_column = columns.iallreduce(vec![comm.rank() as u64], Sum)?;
    let all = comm.iallreduce(vec![comm.rank() as u64], Sum)?;
    let sum =
        |is_member: &dyn Fn(usize) -> bool| (0..comm.size()).filter(|rank| is_member(*rank)).sum::<usize>() as u64;
    check_eq!(in_column.wait()?[0], sum(&|rank| rank % side == column), "the column");
    check_eq!(all.wait()?[0], sum(&|_| true), "all");
    check_eq!(in_row.wait()?[0], sum(&|rank| rank / side == row), "the row");
    Ok(())
}

fn listed(comm: &Comm) -> Outcome {
    let every_third: Vec<Rank> = (0..comm.size()).rev().step_by(3).collect();
    let part = comm.create(&every_third)?;
    check_eq!(part.is_some(), every_third.contains(&comm.rank()), "whether this rank is in it");
    if let Some(part) = part {
        check_members(&part, comm.rank(), &every_third)?;
    }
    check!(comm.create(&[])?.is_none(), "a communicator without members");
    Ok(())
}

fn many(comm: &Comm) -> Outcome {
    let asked = std::env::var("TREEPIE_CYCLES").ok().and_then(|cycles| cycles.parse().ok());
    let rounds = asked.unwrap_or(if comm.size() <= 8 { 300 } else { 30 });
    let mut early_memory = None;
    for round in 0..rounds {
        let algorithm =
            ["split/allgather_sort", "split/distributed:sorters=2", "split/quick:sorters=2"][round as usize % 3];
        let part = comm
            .with_algorithm(algorithm)?
            .split((comm.rank() as u32 + round) % 2, (comm.rank() as i32 / 2) ^ 1)?
            .expect("every rank has a color");
        let size = part.allreduce(&[1u32], Sum)?[0] as usize;
        check_eq!(size, part.size(), "ranks of communicator {round}");
        if round == rounds / 5 {
            early_memory = resident_memory();
        }
    }
    // A leak of few communicators may hide in memory that the allocator retains.
    if let (Some(before), Some(after), true) = (early_memory, resident_memory(), rounds >= 10_000) {
        check!(after < before + (2 << 20), "{before} bytes became {after} after {rounds} communicators");
    }
    Ok(())
}

/// Resident memory of this process in bytes.
fn resident_memory() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

fn translated(comm: &Comm) -> Outcome {
    let part = comm.split(comm.rank() as u32 % 2, -(comm.rank() as i32))?.expect("every rank has a color");
    for rank in 0..part.size() {
        let there = part.translate_rank(rank, comm)?.expect("every rank is in the parent");
        check_eq!(there % 2, comm.rank() % 2, "rank {rank} there");
        check_eq!(comm.translate_rank(there, &part)?, Some(rank), "and back");
    }
    let other = (0..comm.size()).find(|rank| rank % 2 != comm.rank() % 2);
    if let Some(other) = other {
        check_eq!(comm.translate_rank(other, &part)?, None, "a rank of the other half");
    }
    Ok(())
}

fn rank_tables(comm: &Comm) -> Outcome {
    let odd = comm.split(comm.rank() as u32 % 2, 0)?.expect("every rank has a color");
    let around = comm.split(0, -(comm.rank() as i32))?.expect("every rank has a color");
    for part in [odd, around] {
        // Only if the parent is a formula itself.
        if !comm.rank_table_kind().ends_with("table") {
            check!(part.rank_table_kind() != "table", "{} for every other rank", part.rank_table_kind());
            check!(part.rank_table_bytes() < 100, "{} bytes for a formula", part.rank_table_bytes());
        }
    }
    Ok(())
}

fn refused(comm: &Comm) -> Outcome {
    let size = comm.size();
    check_eq!(comm.create(&[size]).err(), Some(Error::BadRank { rank: size, size }), "a rank out of range");
    let twice = comm.create(&[0, 0]).err().map(|error| error.to_string());
    check_eq!(twice.as_deref(), Some("rank 0 is listed twice in a group"), "a rank twice");
    if size > 1 {
        let list: &[Rank] = if comm.rank() == 0 { &[0] } else { &[0, 1] };
        check!(comm.create(list).is_err(), "ranks that list different groups");
    }
    comm.barrier()?;
    Ok(())
}
