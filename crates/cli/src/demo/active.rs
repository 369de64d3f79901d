//! Active messages in the demo: random updates (GUPS) with several routings, handlers that send messages, and calls
//! with replies.

use anyhow::{Context, ensure};
use treepie::am::{Call, Config};
use treepie::{ActiveMessages, Comm, Rank};

/// Words of the table on each rank.
const WORDS: u64 = 1000;

/// Updates that each rank sends.
const UPDATES: u64 = 50_000;

/// From the root of the tree down to its leaves.
const DEPTH: u32 = 15;

/// Configurations of the runtime, run one after the other.
const CONFIGURATIONS: [&str; 4] = ["", "routing=rook,coalescing=512", "routing=hypercube,reductions=1024", "style=bsp"];

/// Counts for the report.
pub(super) struct ActiveMessagesResult {
    /// Updates of all ranks in one configuration.
    pub(super) updates: u64,
    pub(super) configurations: usize,
    /// Handlers of the tree.
    pub(super) handlers: u64,
}

/// Updates a table in every configuration, grows a tree of handlers, and reads the table by calls.
pub(super) fn run(world: &Comm) -> anyhow::Result<ActiveMessagesResult> {
    for text in CONFIGURATIONS {
        update(world, text.parse()?).with_context(|| format!("rank {}: {text:?}", world.rank()))?;
    }
    let handlers = run_tree(world).with_context(|| format!("rank {}: a tree of handlers", world.rank()))?;
    gather(world).with_context(|| format!("rank {}: calls", world.rank()))?;
    Ok(ActiveMessagesResult { updates: UPDATES * world.size() as u64, configurations: CONFIGURATIONS.len(), handlers })
}

/// The index, in the table of all ranks, that a rank's update of this number is for.
fn word(rank: usize, number: u64, ranks: usize) -> u64 {
    let hash = (rank as u64 * UPDATES + number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ hash >> 29) % (WORDS * ranks as u64)
}

fn update(world: &Comm, config: Config) -> anyhow::Result<()> {
    let (rank, ranks) = (world.rank(), world.size());
    let mut build = ActiveMessages::<Vec<u64>>::builder(world);
    let add = build.target("add", |m: &[u64; 2]| (m[0] / WORDS) as Rank);
    build.on_prefetch(
        add,
        |table, [at, _]| &table[(at % WORDS) as usize],
        |table, _, [at, by]| table[(at % WORDS) as usize] += by,
    );
    build.combine(add, |[at, _]| *at, |[_, sum], [_, by]| *sum += by);
    build.configure_all(config);
    let mut am = build.start()?;
    let mut table = vec![0; WORDS as usize];
    let sum = am.epoch_for(&mut table, 0..UPDATES, |cx, _, number| {
        cx.add_to_sum(number);
        cx.send_to_owner(&add, [word(rank, number, ranks), number]);
    })?;
    let each: u64 = (0..UPDATES).sum();
    ensure!(sum == each * ranks as u64, "the sum is {sum}");
    // Every rank can compute what all ranks have sent.
    let mut expected = vec![0; WORDS as usize];
    for (from, number) in (0..ranks).flat_map(|from| (0..UPDATES).map(move |number| (from, number))) {
        let at = word(from, number, ranks);
        if at / WORDS == rank as u64 {
            expected[(at % WORDS) as usize] += number;
        }
    }
    let wrong = table.iter().zip(&expected).filter(|(got, right)| got != right).count();
    ensure!(wrong == 0, "{wrong} of {WORDS} words are wrong");
    Ok(())
}

/// Each handler sends two messages to other ranks until the leaves. Returns the number of handlers.
fn run_tree(world: &Comm) -> anyhow::Result<u64> {
    let mut build = ActiveMessages::<u64>::builder(world);
    let grow = build.port::<[u32; 2]>("grow");
    build.on(grow, move |leaves, cx, [node, depth]| {
        cx.add_to_sum(1);
        if depth == DEPTH {
            *leaves += 1;
            return;
        }
        for child in [2 * node, 2 * node + 1] {
            cx.send(grow, child as Rank % cx.ranks(), [child, depth + 1]);
        }
    });
    let mut leaves = 0;
    let roots = (world.rank() == 0).then_some([1, 0]);
    let nodes = build.start()?.epoch_for(&mut leaves, roots, |cx, _, root| cx.send(grow, 0, root))?;
    ensure!(nodes == (2 << DEPTH) - 1, "{nodes} handlers");
    // Consecutive leaves lie on consecutive ranks.
    let all = 1_u64 << DEPTH;
    let ranks = world.size() as u64;
    ensure!((all / ranks..=all.div_ceil(ranks)).contains(&leaves), "{leaves} of {all} leaves");
    Ok(nodes)
}

/// Each rank reads the words of all ranks.
fn gather(world: &Comm) -> anyhow::Result<()> {
    let ranks = world.size() as u64;
    let mut build = ActiveMessages::<[Vec<u64>; 2]>::builder(world);
    let get: Call<u64, u64, u32> = build.call("get");
    build.on_call(get, |[words, _], _, at| words[at as usize], |[_, got], _, note, word| got[note as usize] = word);
    let first = world.rank() as u64 * WORDS;
    let mut state = [(first..first + WORDS).map(square).collect(), vec![0; (WORDS * ranks) as usize]];
    build.start()?.epoch_for(&mut state, 0..WORDS * ranks, |cx, _, at| {
        cx.call(get, (at / WORDS) as Rank, at as u32, at % WORDS);
    })?;
    ensure!(state[1].iter().copied().eq((0..WORDS * ranks).map(square)), "replies do not match their calls");
    Ok(())
}

fn square(number: u64) -> u64 {
    number * number
}
