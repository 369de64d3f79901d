//! Word count over a distributed map: each word is a message to the rank that owns its entry.
//! The book shows this program beside one with mpi4py (docs/tasks.md).

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use treepie::prelude::*;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let file = std::env::args().nth(1).ok_or("which file?")?;
        let text = std::fs::read_to_string(file)?;
        let lines = text.lines().skip(world.rank()).step_by(world.size());
        let words = lines.flat_map(str::split_whitespace).map(str::to_owned);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let owner = |word: &String| hasher.hash_one(word) as Rank % world.size();
        let mut counts: HashMap<String, u64> = HashMap::new();
        am::run_objects(&world, &mut counts, words, owner, |counts, _, word| *counts.entry(word).or_default() += 1)?;
        if let Some(parts) = world.gather_objects(&counts, 0)? {
            let mut all: Vec<(String, u64)> = parts.into_iter().flatten().collect();
            all.sort_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
            all.iter().take(10).for_each(|(word, count)| println!("{word} {count}"));
        }
        Ok(())
    })
}
