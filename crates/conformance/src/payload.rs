//! Self-describing data: a seed and the position determine every byte.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{LazyLock, Mutex};

use treepie::{Pod, Rank};

use crate::check::{Outcome, check, check_eq};

/// The `i`th word of the data of a seed.
fn word(seed: u64, i: u64) -> u64 {
    let mixed = (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

/// The seed of a message.
pub(crate) fn seed(from: Rank, to: Rank, number: usize) -> u64 {
    word(word(from as u64, to as u64), number as u64)
}

/// Data of any length.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    fill(seed, &mut data);
    data
}

/// The same into an existing buffer.
pub(crate) fn fill(seed: u64, data: &mut [u8]) {
    for (i, chunk) in data.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(seed, i as u64).to_le_bytes()[..chunk.len()]);
    }
}

/// Checks that `got` is the data of this seed and length.
#[track_caller]
pub(crate) fn check_bytes(got: &[u8], seed: u64, len: usize) -> Outcome {
    check_eq!(got.len(), len, "length of the received data");
    for (i, chunk) in got.chunks(8).enumerate() {
        if *chunk != word(seed, i as u64).to_le_bytes()[..chunk.len()] {
            let want = &word(seed, i as u64).to_le_bytes()[..chunk.len()];
            check_eq!(chunk, want, "data from byte {} on, of {len}", i * 8);
        }
    }
    Ok(())
}

/// A checksum that depends on the order of the bytes.
pub(crate) fn checksum(data: &[u8]) -> u64 {
    let mut sum = data.len() as u64;
    for chunk in data.chunks(8) {
        let mut last = [0; 8];
        last[..chunk.len()].copy_from_slice(chunk);
        sum = (sum.rotate_left(5) ^ u64::from_le_bytes(last)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    sum
}

/// An element type of messages.
pub(crate) trait Element: Pod + Send + PartialEq + Debug {
    /// A value that depends on its number.
    fn from_number(number: u64) -> Self;
}

macro_rules! integers {
    ($($t:ty)+) => {
        $(impl Element for $t {
            fn from_number(number: u64) -> Self {
                word(1, number) as $t
            }
        })+
    };
}

integers!(u8 u16 u32 u64);

impl Element for f64 {
    fn from_number(number: u64) -> Self {
        number as f64 * 0.37 - 1e3
    }
}

impl Element for [i32; 3] {
    fn from_number(number: u64) -> Self {
        [number as i32, word(2, number) as i32, -(number as i32)]
    }
}

/// Plain data of several types.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Particle {
    position: [f64; 3],
    id: u64,
    charge: f32,
    kind: u16,
    flags: [u8; 2],
}

impl Element for Particle {
    fn from_number(number: u64) -> Self {
        Self {
            position: [f64::from_number(number), f64::from_number(number + 1), f64::from_number(number + 2)],
            id: number,
            charge: -(number as f32),
            kind: number as u16,
            flags: [number as u8, 7],
        }
    }
}

/// `len` elements that depend on their owner.
pub(crate) fn series<T: Element>(owner: Rank, len: usize) -> Vec<T> {
    remembered::<T, T>([owner, len, 0, 0], || {
        (0..len as u64).map(|i| T::from_number(owner as u64 * 1_000_003 + i)).collect()
    })
}

/// Elements that a type and numbers determine, computed once in a process and remembered for a while: every rank needs the
/// same for every algorithm, and making them took most of the time of these tests.
pub(crate) fn remembered<K: 'static, T: Pod + Send>(numbers: [usize; 4], compute: impl FnOnce() -> Vec<T>) -> Vec<T> {
    let key = (TypeId::of::<(K, T)>(), numbers);
    let memory = || MEMORY.lock().expect("no thread panics while it holds the lock");
    if let Some(known) = memory().get(&key) {
        return known.downcast_ref::<Vec<T>>().expect("the type is part of the key").clone();
    }
    let elements = compute();
    let mut memory = memory();
    if memory.len() == MAX_REMEMBERED {
        memory.clear();
    }
    memory.insert(key, Box::new(elements.clone()));
    elements
}

/// Vectors by type and numbers.
type Memory = HashMap<(TypeId, [usize; 4]), Box<dyn Any + Send>>;

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

/// Those of all ranks, for several lengths and types.
const MAX_REMEMBERED: usize = 256;

/// Checks that `got` is the [`series`] of this owner.
#[track_caller]
pub(crate) fn check_series<T: Element>(got: &[T], owner: Rank, len: usize) -> Outcome {
    check_eq!(got.len(), len, "elements received");
    let differs = series::<T>(owner, len).iter().zip(got).position(|(want, got)| want != got);
    check!(differs.is_none(), "element {} of {len} from rank {owner} differs", differs.unwrap_or_default());
    Ok(())
}
