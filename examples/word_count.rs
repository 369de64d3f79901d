//! Word count: a map that is distributed over the ranks, each word at the rank that its hash selects.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/word_count              four processes on this machine
//! treepie run -n 4 target/release/examples/word_count README.md    the words of a file
//! mpirun -n 4 target/release/examples/word_count                   the same under MPI
//! target/release/examples/word_count                               alone: a world of one
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};

use treepie::am;
use treepie::prelude::*;

/// The words that are counted if there is no file.
const TEXT: &str = "\
    It was the best of times, it was the worst of times,
    it was the age of wisdom, it was the age of foolishness,
    it was the epoch of belief, it was the epoch of incredulity,
    it was the season of Light, it was the season of Darkness,
    it was the spring of hope, it was the winter of despair,
    we had everything before us, we had nothing before us,
    we were all going direct to Heaven, we were all going direct the other way";

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => TEXT.to_owned(),
    };
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());

        // 1. Every rank takes its share of the lines. A message is a word.
        let lines = text.lines().skip(me).step_by(size);
        let words = lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
        let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);

        // 2. The owner map and the handler. When it returns, all words of all ranks have been counted.
        let owner = |word: &String| hash(word) as Rank % size;
        let mut counts: HashMap<String, u64> = HashMap::new();
        am::run_objects(&world, &mut counts, words, owner, |counts, _, word| *counts.entry(word).or_default() += 1)?;

        // 3. All messages of a word went to one rank. So the ten most frequent words are among those of the ranks.
        println!("rank {me}: {} different words are here", counts.len());
        let total = world.reduce_one(counts.values().sum::<u64>(), Sum, 0)?;
        let candidates = world.gather_objects(&most_frequent(counts.into_iter().collect()), 0)?;
        if let (Some(total), Some(candidates)) = (total, candidates) {
            let top = most_frequent(candidates.concat());
            let top: Vec<String> = top.into_iter().map(|(word, count)| format!("{word} {count}")).collect();
            println!("rank 0: {total} words, most often {}", top.join(", "));
        }
        Ok(())
    })?;
    Ok(())
}

/// The same on all ranks: this hasher has no random keys.
fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

/// The ten most frequent words; those that are equally frequent in the order of the alphabet.
fn most_frequent(mut counts: Vec<(String, u64)>) -> Vec<(String, u64)> {
    counts.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    counts.truncate(10);
    counts
}
