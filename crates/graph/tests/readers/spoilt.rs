//! Files that are spoilt by chance: nothing that is done to samples makes a reader panic, and it is the same whoever
//! reads it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie_graph::Format;

use super::{GOOD, read, sample, scratch};

/// What is put into files, since nothing else finds these by chance.
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
        let (place, other) = (below(bytes.len()), below(bytes.len()));
        let (start, end) = (place.min(other), place.max(other));
        match below(6) {
            0 if !bytes.is_empty() => bytes[place] ^= 1 << below(8),
            1 if !bytes.is_empty() => bytes[place] = b"0123456789 \n"[below(12)],
            2 => bytes.truncate(place),
            3 => drop(bytes.drain(start..end)),
            4 => {
                let doubled = bytes[start..end].to_vec();
                bytes.splice(end..end, doubled);
            }
            _ => drop(bytes.splice(place..place, WORDS[below(WORDS.len())].iter().copied())),
        }
    }
}

/// The checksum of bytes of a saved graph, as its format says: of words of 4 bytes, each with its place.
fn checksum(at: usize, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    (at as u64 / 4..).zip(words).fold(0, |sum, (place, word)| {
        let mixed = (place.rotate_left(32) ^ u64::from(word)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        sum ^ mixed ^ mixed >> 31
    })
}

/// Makes the checksums of a saved graph of one block right, so that what is wrong in it is not found by them.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 48 {
        let body = checksum(0, &bytes[48..]);
        bytes[40..48].copy_from_slice(&body.to_le_bytes());
        let head = checksum(0, &bytes[..32]) ^ checksum(40, &bytes[40..48]);
        bytes[32..40].copy_from_slice(&head.to_le_bytes());
    }
}

fn fuzz(format: Format) {
    let directory = scratch(&format!("fuzz-{format}"));
    let names = GOOD.iter().map(|(name, ..)| *name);
    let samples: Vec<_> = names.filter(|name| Format::guess(Path::new(name)) == Ok(format)).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(format as u64 + 1);
    let (start, is_long) = (Instant::now(), std::env::var_os("TREEPIE_LONG").is_some());
    let (mut rounds, mut good) = (0, 0);
    while if is_long { start.elapsed() < Duration::from_secs(60) } else { rounds < 2000 } {
        let name = samples[rounds % samples.len()];
        let path = directory.join(name);
        let mut bytes = fs::read(sample("good").join(name)).expect("a sample");
        // Weights of packed edges lie beside them, and are spoilt in their turn.
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
            None => assert!(format != Format::Packed || !name.starts_with("kron"), "a sample has weights"),
        }
        let before = bytes.clone();
        mutate(&mut bytes, &mut random);
        let is_sealed = format == Format::Treepie && random.next_u32().is_multiple_of(2);
        if is_sealed {
            seal(&mut bytes);
        }
        fs::write(&path, &bytes).expect("it is written");
        let (one, three) = (read(std::slice::from_ref(&path), 1), read(std::slice::from_ref(&path), 3));
        good += usize::from(one.is_ok());
        let is_same = if one.is_ok() { one == three } else { three.is_err() };
        assert!(is_same, "round {rounds}: {one:?} in one part, {three:?} in three, of {}", bytes.escape_ascii());
        let is_told =
            format != Format::Treepie || is_sealed || name.ends_with(".gz") || one.is_err() || bytes == before;
        assert!(is_told, "round {rounds}: a change goes unnoticed in {}", bytes.escape_ascii());
        rounds += 1;
    }
    assert!(good > rounds / 100 && good < rounds, "{good} of {rounds} files were good: that tests little");
    fs::remove_dir_all(directory).expect("it is there");
}

#[test]
fn spoilt_text() {
    fuzz(Format::Text);
}

#[test]
fn spoilt_matrix_market() {
    fuzz(Format::MatrixMarket);
}

#[test]
fn spoilt_metis() {
    fuzz(Format::Metis);
}

#[test]
fn spoilt_dimacs() {
    fuzz(Format::Dimacs);
}

#[test]
fn spoilt_packed() {
    fuzz(Format::Packed);
}

#[test]
fn spoilt_saved() {
    fuzz(Format::Treepie);
}
