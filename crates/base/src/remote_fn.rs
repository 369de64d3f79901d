//! Functions that can be sent to other processes which run the same executable.
//!
//! A process does not know where the kernel loaded the executable in another one, but offsets within it are constant.
//! So a [`RemoteFn`] is made of offsets from an anchor, an address in the same object file, and the receiver adds them
//! to the anchor's address there.
//!
//! What another process sent may be anything, and calling it must be safe. So a [`RemoteFn`] ends with a check word: a
//! keyed hash of the offsets and of the types that the function takes. The key is made of all bytes of the object file.
//! Only [`RemoteFn::new`] makes check words; [`RemoteFn::call`] refuses all others. This relies on:
//!
//! - Words that did not come from [`RemoteFn::new`], or came from it in a process with another object file, for another
//!   state or for another context, have the right check word with probability 2^-64 only. (This excludes mistakes and
//!   garbage, not an attacker who reads the key out of this process: who can do that, or forge messages between ranks,
//!   needs no such door.)
//! - Processes with the same object file have the same function at the same offset from the anchor: the loader
//!   relocates an object as a whole. `new` took the function's address in that object file, so its code is there and
//!   may be called.
//! - Types have no lifetimes that could differ: state and context are `'static`, and identified by their `TypeId`
//!   (names of types are not unique).
//!
//! The object file is the one into which this crate was linked: the executable, or the shared library that a program is
//! a part of. [`RemoteFn::new`] refuses functions of any other object, since their offset differs in each process.

mod image;

use std::any::TypeId;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::with_exposed_provenance;

use bytemuck::{Pod, Zeroable};

use image::Image;

/// The anchor of offsets. It has one address in each process, which functions need not have.
static ANCHOR: u8 = 0;

fn anchor() -> usize {
    (&raw const ANCHOR).addr()
}

/// The fingerprint of the object file of this code: the same in all processes that run the same file. If the file
/// cannot be read it is a different number in each process.
///
/// It is computed at the first call, by reading the file (usually `/proc/self/exe`). A shared library that is replaced
/// on disk between being loaded and that call goes undetected; an executable does not.
pub fn fingerprint() -> u64 {
    Image::current().fingerprint
}

/// A function `fn(&mut S, &mut C, D)`, as words that processes which run the same executable may send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RemoteFn {
    /// Offset of the [`trampoline`] for `D` from the anchor.
    trampoline: u64,
    /// Offset of the function.
    function: u64,
    check_word: u64,
}

// SAFETY: zeros are a value: one that is refused.
unsafe impl Zeroable for RemoteFn {}
// SAFETY: three words without padding; what they mean is checked before it is used.
unsafe impl Pod for RemoteFn {}

/// The type of [`trampoline`] with `D` erased.
type Trampoline<S, C> = unsafe fn(*const (), &mut S, &mut C, &[u8]) -> bool;

impl RemoteFn {
    /// Encodes a function, or a closure without captures. Panics if it lies in another shared library.
    pub fn new<S: 'static, C: 'static, D: Pod>(function: fn(&mut S, &mut C, D)) -> Self {
        let erased: Trampoline<S, C> = trampoline::<S, C, D>;
        let trampoline = anchor_offset(erased as *const ());
        let function = anchor_offset(function as *const ());
        Self { trampoline, function, check_word: check_word::<S, C>(trampoline, function) }
    }

    /// Calls the function on `data`, the bytes of its `D`. Calls nothing and returns false if this was not made by
    /// [`RemoteFn::new`] in a process that runs the same executable, of a function for this state and context, or if
    /// `data` has not the length of a `D`.
    #[must_use = "false says that nothing was called"]
    pub fn call<S: 'static, C: 'static>(self, state: &mut S, context: &mut C, data: &[u8]) -> bool {
        if self.check_word != check_word::<S, C>(self.trampoline, self.function) {
            return false;
        }
        // SAFETY: by the check word, `new` made this for the same `S` and `C` in the same object file, so here too a
        // `trampoline::<S, C, D>` lies at this offset.
        let trampoline = unsafe { std::mem::transmute::<*const (), Trampoline<S, C>>(address_at(self.trampoline)) };
        // SAFETY: and `new` combined it with a function that takes that `D`.
        unsafe { trampoline(address_at(self.function), state, context, data) }
    }
}

/// Calls a function with the `D` in `data`. False if it has not the length of a `D`.
///
/// # Safety
/// `function` is the address of a `fn(&mut S, &mut C, D)`.
unsafe fn trampoline<S, C, D: Pod>(function: *const (), state: &mut S, context: &mut C, data: &[u8]) -> bool {
    let Ok(data) = bytemuck::try_pod_read_unaligned::<D>(data) else { return false };
    // SAFETY: the caller promises it.
    let function = unsafe { std::mem::transmute::<*const (), fn(&mut S, &mut C, D)>(function) };
    function(state, context, data);
    true
}

fn anchor_offset(function: *const ()) -> u64 {
    let address = function.expose_provenance();
    assert!(Image::current().addresses.contains(&address), "a function of another shared library cannot be sent");
    address.wrapping_sub(anchor()) as u64
}

fn address_at(offset: u64) -> *const () {
    with_exposed_provenance(anchor().wrapping_add(offset as usize))
}

fn check_word<S: 'static, C: 'static>(trampoline: u64, function: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (Image::current().key, TypeId::of::<S>(), TypeId::of::<C>(), trampoline, function).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    type Lines = Vec<String>;

    fn count(lines: &mut Lines, calls: &mut u64, data: [u16; 3]) {
        *calls += 1;
        lines.push(format!("{data:?}"));
    }

    #[test]
    fn what_was_made_here_is_called() {
        let (mut lines, mut calls) = (Lines::new(), 0u64);
        let one = RemoteFn::new(count);
        let other = RemoteFn::new(|lines: &mut Lines, calls: &mut u64, data: f64| {
            *calls += 10;
            lines.push(format!("{data}"));
        });
        let nothing = RemoteFn::new(|_: &mut Lines, calls: &mut u64, (): ()| *calls += 100);
        // Data need not be aligned.
        let bytes = [0, 1, 0, 2, 0, 3, 0];
        assert!(one.call(&mut lines, &mut calls, &bytes[1..]));
        assert!(other.call(&mut lines, &mut calls, &2.5f64.to_ne_bytes()));
        assert!(nothing.call(&mut lines, &mut calls, &[]));
        assert_eq!((lines.join(" "), calls), ("[1, 2, 3] 2.5".to_string(), 111));
        for len in (0..12).filter(|len| *len != 6) {
            assert!(!one.call(&mut lines, &mut calls, &[0; 12][..len]), "{len} bytes are no [u16; 3]");
        }
        assert_eq!(calls, 111);
    }

    #[test]
    fn forged_words_are_refused() {
        let (mut lines, mut calls) = (Lines::new(), 0u64);
        let remote = RemoteFn::new(count);
        for bit in 0..192 {
            let mut words: [u64; 3] = bytemuck::cast(remote);
            words[bit / 64] ^= 1 << (bit % 64);
            assert!(
                !bytemuck::cast::<_, RemoteFn>(words).call(&mut lines, &mut calls, &[0; 6]),
                "bit {bit} was changed"
            );
        }
        // Each word is valid, but they do not belong together.
        let other = RemoteFn::new(|_: &mut Lines, calls: &mut u64, data: u64| *calls += data);
        for mixed in [
            RemoteFn { function: other.function, ..remote },
            RemoteFn { trampoline: other.trampoline, ..remote },
            RemoteFn { check_word: other.check_word, ..remote },
            RemoteFn::zeroed(),
        ] {
            assert!(!mixed.call(&mut lines, &mut calls, &[0; 6]) && !mixed.call(&mut lines, &mut calls, &[0; 8]));
        }
        assert_eq!((lines.len(), calls), (0, 0));
        assert!(remote.call(&mut lines, &mut calls, &[0; 6]), "the right words are not refused");
    }

    #[test]
    fn other_types_are_refused_even_if_they_have_the_same_name() {
        fn nothing<S, C>(_: &mut S, _: &mut C, (): ()) {}
        fn name<T>(_: &T) -> &'static str {
            std::any::type_name::<T>()
        }
        let (mut ours, for_ours) = {
            struct State(#[expect(dead_code)] u64);
            (State(1), RemoteFn::new(nothing::<State, u64>))
        };
        let (mut theirs, for_theirs) = {
            struct State(#[expect(dead_code)] &'static str);
            (State("1"), RemoteFn::new(nothing::<State, u64>))
        };
        assert_eq!(name(&ours), name(&theirs));
        assert!(for_ours.call(&mut ours, &mut 1u64, &[]) && for_theirs.call(&mut theirs, &mut 1u64, &[]));
        assert!(!for_ours.call(&mut theirs, &mut 1u64, &[]) && !for_theirs.call(&mut ours, &mut 1u64, &[]));
        assert!(!for_ours.call(&mut ours, &mut 1i64, &[]), "another context");
    }

    const SENT: &str = "TREEPIE_TEST_CODE";

    /// This program runs itself again, for this test only, and passes by [`SENT`] what to call.
    #[test]
    fn another_process_runs_what_was_sent() {
        if let Ok(sent) = std::env::var(SENT) {
            let words: Vec<u64> = sent.split(' ').map(|word| word.parse().expect("a number")).collect();
            let remote: RemoteFn = *bytemuck::from_bytes(bytemuck::cast_slice(&words[..3]));
            let (mut lines, mut calls) = (Lines::new(), 0u64);
            let ran = remote.call(&mut lines, &mut calls, bytemuck::bytes_of(&words[3]));
            println!("\nran {ran}, calls {calls}, {}, fingerprint {}", lines.join(" "), fingerprint());
            eprintln!("the anchor is at {:x}", anchor());
            return;
        }
        let answer = |words: [u64; 3]| {
            let output = Command::new(std::env::current_exe().expect("this program has a path"))
                .args(["remote_fn::tests::another_process_runs_what_was_sent", "--exact", "--nocapture"])
                .env(SENT, format!("{} {} {} 41", words[0], words[1], words[2]))
                .output()
                .expect("this program runs again");
            let stdout = String::from_utf8_lossy(&output.stdout).to_string();
            eprint!("here the anchor is at {:x}, there {}", anchor(), String::from_utf8_lossy(&output.stderr));
            stdout.lines().find(|line| line.starts_with("ran ")).unwrap_or(&stdout).to_string()
        };
        let remote = RemoteFn::new(|lines: &mut Lines, calls: &mut u64, data: u64| {
            *calls += data + 1;
            lines.push("hello".to_string());
        });
        let [trampoline, function, check] = bytemuck::cast(remote);
        let fingerprint = fingerprint();
        assert_eq!(
            answer([trampoline, function, check]),
            format!("ran true, calls 42, hello, fingerprint {fingerprint}")
        );
        assert_eq!(answer([trampoline, function, !check]), format!("ran false, calls 0, , fingerprint {fingerprint}"));
    }
}
