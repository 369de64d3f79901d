//! Fuzzed files: no mutation of a sample makes a reader panic, and the outcome does not depend on the number of parts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie_graph::InputFormat;

use super::{GOOD, read, sample, scratch};

/// Insertions that random bytes would hardly ever produce.
const WORDS: [&[u8]; 16] = [
    b"18446744073709551615",
    b"99999999999999999999999",
    b"-1",
    b"0",
    b"nan",
    b"1e999",
    b"%",
    b"#",
    b"\n",
    b"\r\n",
    b",",
    b" ",
    b"a ",
    b"\xff",
    b"\0",
    b"1",
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Xoshiro256PlusPlus) {
    for _ in 0..1 + random.next_u32() % 3 {
        let mut below = |bound: usize| random.next_u64() as usize % bound.max(1);
        let (at, other) = (below(bytes.len()), below(bytes.len()));
        let (start, end) = (at.min(other), at.max(other));
        match below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << below(8),
            1 if !bytes.is_empty() => bytes[at] = b"0123456789 \n"[below(12)],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(start..end)),
            4 => {
                let doubled = bytes[start..end].to_vec();
                bytes.splice(end..end, doubled);
            }
            _ => drop(bytes.splice(at..at, WORDS[below(WORDS.len())].iter().copied())),
        }
    }
}

/// The checksum of the format of saved graphs: of 4-byte words, each with its position.
fn checksum(at: usize, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    (at as u64 / 4..).zip(words).fold(0, |sum, (position, word)| {
        let mixed = (position.rotate_left(32) ^ u64::from(word)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        sum ^ mixed ^ mixed >> 31
    })
}

/// Makes the checksums of a saved graph of one block valid, so that they do not detect the mutation.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 48 {
        let body = checksum(0, &bytes[48..]);
        bytes[40..48].copy_from_slice(&body.to_le_bytes());
        let head = checksum(0, &bytes[..32]) ^ checksum(40, &bytes[40..48]);
        bytes[32..40].copy_from_slice(&head.to_le_bytes());
    }
}

fn fuzz(format: InputFormat) {
    let directory = scratch(&format!("fuzz-{format}"));
    let names = GOOD.iter().map(|(name, ..)| *name);
    let samples: Vec<_> = names.filter(|name| InputFormat::guess(Path::new(name)) == Ok(format)).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(format as u64 + 1);
    let (start, is_long) = (Instant::now(), std::env::var_os("TREEPIE_LONG").is_some());
    let (mut rounds, mut good) = (0, 0);
    while if is_long { start.elapsed() < Duration::from_secs(60) } else { rounds < 1000 } {
        let name = samples[rounds % samples.len()];
        let path = directory.join(name);
        let mut bytes = fs::read(sample("good").join(name)).expect("a sample");
        // Weights of packed edges are in a second file, which is mutated too.
        let weights = [format!("{name}.weights"), format!("{}.weights.gz", name.trim_end_matches(".gz"))];
        let weights = weights.iter().find(|name| sample("good").join(name).exists());
        match weights {
            Some(weights) => {
                let mut bytes = fs::read(sample("good").join(weights)).expect("a sample");
                if random.next_u32().is_multiple_of(2) {
                    mutate(&mut bytes, &mut random);
                }
                fs::write(directory.join(weights), bytes).expect("it is written");
            }
            None => assert!(format != InputFormat::Packed || !name.starts_with("kron"), "a sample has weights"),
        }
        let before = bytes.clone();
        mutate(&mut bytes, &mut random);
        let is_sealed = format == InputFormat::Treepie && random.next_u32().is_multiple_of(2);
        if is_sealed {
            seal(&mut bytes);
        }
        fs::write(&path, &bytes).expect("it is written");
        let (one, three) = (read(std::slice::from_ref(&path), 1), read(std::slice::from_ref(&path), 3));
        good += usize::from(one.is_ok());
        let is_same = if one.is_ok() { one == three } else { three.is_err() };
        assert!(is_same, "round {rounds}: {one:?} in one part, {three:?} in three, of {}", bytes.escape_ascii());
        let is_detected =
            format != InputFormat::Treepie || is_sealed || name.ends_with(".gz") || one.is_err() || bytes == before;
        assert!(is_detected, "round {rounds}: a mutation is not detected in {}", bytes.escape_ascii());
        rounds += 1;
    }
    assert!(good > rounds / 100 && good < rounds, "{good} of {rounds} files were good: that tests little");
    fs::remove_dir_all(directory).expect("it is there");
}

#[test]
fn fuzz_text() {
    fuzz(InputFormat::Text);
}

#[test]
fn fuzz_matrix_market() {
    fuzz(InputFormat::MatrixMarket);
}

#[test]
fn fuzz_metis() {
    fuzz(InputFormat::Metis);
}

#[test]
fn fuzz_dimacs() {
    fuzz(InputFormat::Dimacs);
}

#[test]
fn fuzz_packed() {
    fuzz(InputFormat::Packed);
}

#[test]
fn fuzz_graph_file() {
    fuzz(InputFormat::Treepie);
}
