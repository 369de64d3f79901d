//! Functions that can be sent to other processes which run the same executable.
//!
//! A process does not know where the kernel loaded the executable in another one, but within it everything keeps its
//! distance. So a [`Code`] is made of distances from an anchor, a place that lies in the same object file, and the
//! receiver adds them to the address which that place has there.
//!
//! What came from elsewhere may be anything, and calling it must be safe. So a [`Code`] ends with a check word: a keyed
//! hash of the distances and of the types that the function takes. The key is made of all bytes of the object file. Only
//! [`Code::of`] makes check words; [`Code::run`] refuses all others. What this relies on:
//!
//! - Words that did not come from [`Code::of`], or came from it in a process with another object file, for another state
//!   or for another context, have the right check word by a chance of 2^-64 only. (It keeps out mistakes and garbage, not
//!   somebody who reads the key out of this process: who can do that, or write into the messages between ranks on
//!   purpose, needs no such door.)
//! - Processes with the same object file have the same function at the same distance from the anchor: the loader moves
//!   an object as a whole. `of` took the function's address in that object file, so its code is there, to be called by
//!   anybody.
//! - Types have no lifetimes that could differ: state and context are `'static`, and known by their `TypeId` (names of
//!   types are not unique).
//!
//! The object file is the one into which this crate was linked: the executable, or the shared library that a program is
//! a part of. Functions of any other object are refused by [`Code::of`], since their distance is another one in each
//! process.

mod image;

use std::any::TypeId;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::with_exposed_provenance;

use bytemuck::{Pod, Zeroable};

use image::Image;

/// The place that distances are counted from. It has one address in each process, which addresses of functions need not.
static ANCHOR: u8 = 0;

fn anchor() -> usize {
    (&raw const ANCHOR).addr()
}

/// Which object file this code runs from: the same in all processes that run the same file. If the file cannot be read
/// it is another number in each process.
///
/// It is computed at the first call, by reading the file (usually `/proc/self/exe`). A shared library that is replaced on
/// disk between being loaded and that call goes unnoticed; an executable does not.
pub fn fingerprint() -> u64 {
    Image::own().fingerprint
}

/// A function `fn(&mut S, &mut C, D)`, in words that processes which run the same executable may send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Code {
    /// How far the [`unpack`] that knows `D` lies from the anchor.
    unpack: u64,
    /// The same for the function.
    function: u64,
    check: u64,
}

// SAFETY: zeros are a value of it: one that is refused.
unsafe impl Zeroable for Code {}
// SAFETY: three words without padding; what they mean is checked before it is used.
unsafe impl Pod for Code {}

/// What [`unpack`] is where `D` is not known any more.
type Unpack<S, C> = unsafe fn(*const (), &mut S, &mut C, &[u8]) -> bool;

impl Code {
    /// This function; closures without captures can be given too. Panics if it lies in another shared library.
    pub fn of<S: 'static, C: 'static, D: Pod>(function: fn(&mut S, &mut C, D)) -> Self {
        let unpack: Unpack<S, C> = unpack::<S, C, D>;
        let unpack = distance(unpack as *const ());
        let function = distance(function as *const ());
        Self { unpack, function, check: check::<S, C>(unpack, function) }
    }

    /// Calls the function on `data`, the bytes of its `D`. Calls nothing and returns false if this was not made by
    /// [`Code::of`] in a process that runs the same executable, of a function for this state and context, or if `data`
    /// has not the length of a `D`.
    #[must_use = "false says that nothing was called"]
    pub fn run<S: 'static, C: 'static>(self, state: &mut S, context: &mut C, data: &[u8]) -> bool {
        if self.check != check::<S, C>(self.unpack, self.function) {
            return false;
        }
        // SAFETY: by the check word, `of` made this for the same `S` and `C` in the same object file, so here too an
        // `unpack::<S, C, D>` lies at this distance.
        let unpack = unsafe { std::mem::transmute::<*const (), Unpack<S, C>>(address(self.unpack)) };
        // SAFETY: and `of` put it together with a function that takes that `D`.
        unsafe { unpack(address(self.function), state, context, data) }
    }
}

/// Calls a function with what `data` says. False if it has not the length of a `D`.
///
/// # Safety
/// `function` is the address of a `fn(&mut S, &mut C, D)`.
unsafe fn unpack<S, C, D: Pod>(function: *const (), state: &mut S, context: &mut C, data: &[u8]) -> bool {
    let Ok(data) = bytemuck::try_pod_read_unaligned::<D>(data) else { return false };
    // SAFETY: the caller promises it.
    let function = unsafe { std::mem::transmute::<*const (), fn(&mut S, &mut C, D)>(function) };
    function(state, context, data);
    true
}

fn distance(function: *const ()) -> u64 {
    let address = function.expose_provenance();
    assert!(Image::own().addresses.contains(&address), "a function of another shared library cannot be sent");
    address.wrapping_sub(anchor()) as u64
}

fn address(distance: u64) -> *const () {
    with_exposed_provenance(anchor().wrapping_add(distance as usize))
}

fn check<S: 'static, C: 'static>(unpack: u64, function: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (Image::own().key, TypeId::of::<S>(), TypeId::of::<C>(), unpack, function).hash(&mut hasher);
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
        let one = Code::of(count);
        let other = Code::of(|lines: &mut Lines, calls: &mut u64, data: f64| {
            *calls += 10;
            lines.push(format!("{data}"));
        });
        let nothing = Code::of(|_: &mut Lines, calls: &mut u64, (): ()| *calls += 100);
        // Data need not be aligned.
        let bytes = [0, 1, 0, 2, 0, 3, 0];
        assert!(one.run(&mut lines, &mut calls, &bytes[1..]));
        assert!(other.run(&mut lines, &mut calls, &2.5f64.to_ne_bytes()));
        assert!(nothing.run(&mut lines, &mut calls, &[]));
        assert_eq!((lines.join(" "), calls), ("[1, 2, 3] 2.5".to_string(), 111));
        for len in (0..12).filter(|len| *len != 6) {
            assert!(!one.run(&mut lines, &mut calls, &[0; 12][..len]), "{len} bytes are no [u16; 3]");
        }
        assert_eq!(calls, 111);
    }

    #[test]
    fn forged_words_are_refused() {
        let (mut lines, mut calls) = (Lines::new(), 0u64);
        let code = Code::of(count);
        for bit in 0..192 {
            let mut words: [u64; 3] = bytemuck::cast(code);
            words[bit / 64] ^= 1 << (bit % 64);
            assert!(!bytemuck::cast::<_, Code>(words).run(&mut lines, &mut calls, &[0; 6]), "bit {bit} was changed");
        }
        // Each part is right, but they do not belong together.
        let other = Code::of(|_: &mut Lines, calls: &mut u64, data: u64| *calls += data);
        for mixed in [
            Code { function: other.function, ..code },
            Code { unpack: other.unpack, ..code },
            Code { check: other.check, ..code },
            Code::zeroed(),
        ] {
            assert!(!mixed.run(&mut lines, &mut calls, &[0; 6]) && !mixed.run(&mut lines, &mut calls, &[0; 8]));
        }
        assert_eq!((lines.len(), calls), (0, 0));
        assert!(code.run(&mut lines, &mut calls, &[0; 6]), "the right words are not refused");
    }

    #[test]
    fn other_types_are_refused_even_if_they_have_the_same_name() {
        fn nothing<S, C>(_: &mut S, _: &mut C, (): ()) {}
        fn name<T>(_: &T) -> &'static str {
            std::any::type_name::<T>()
        }
        let (mut ours, for_ours) = {
            struct State(#[expect(dead_code)] u64);
            (State(1), Code::of(nothing::<State, u64>))
        };
        let (mut theirs, for_theirs) = {
            struct State(#[expect(dead_code)] &'static str);
            (State("1"), Code::of(nothing::<State, u64>))
        };
        assert_eq!(name(&ours), name(&theirs));
        assert!(for_ours.run(&mut ours, &mut 1u64, &[]) && for_theirs.run(&mut theirs, &mut 1u64, &[]));
        assert!(!for_ours.run(&mut theirs, &mut 1u64, &[]) && !for_theirs.run(&mut ours, &mut 1u64, &[]));
        assert!(!for_ours.run(&mut ours, &mut 1i64, &[]), "another context");
    }

    const SENT: &str = "TREEPIE_TEST_CODE";

    /// This program runs itself again, for this test only, and tells it by [`SENT`] what to call.
    #[test]
    fn another_process_runs_what_was_sent() {
        if let Ok(sent) = std::env::var(SENT) {
            let words: Vec<u64> = sent.split(' ').map(|word| word.parse().expect("a number")).collect();
            let code: Code = *bytemuck::from_bytes(bytemuck::cast_slice(&words[..3]));
            let (mut lines, mut calls) = (Lines::new(), 0u64);
            let ran = code.run(&mut lines, &mut calls, bytemuck::bytes_of(&words[3]));
            println!("\nran {ran}, calls {calls}, {}, fingerprint {}", lines.join(" "), fingerprint());
            eprintln!("the anchor is at {:x}", anchor());
            return;
        }
        let answer = |words: [u64; 3]| {
            let output = Command::new(std::env::current_exe().expect("this program has a path"))
                .args(["code::tests::another_process_runs_what_was_sent", "--exact", "--nocapture"])
                .env(SENT, format!("{} {} {} 41", words[0], words[1], words[2]))
                .output()
                .expect("this program runs again");
            let stdout = String::from_utf8_lossy(&output.stdout).to_string();
            eprint!("here the anchor is at {:x}, there {}", anchor(), String::from_utf8_lossy(&output.stderr));
            stdout.lines().find(|line| line.starts_with("ran ")).unwrap_or(&stdout).to_string()
        };
        let code = Code::of(|lines: &mut Lines, calls: &mut u64, data: u64| {
            *calls += data + 1;
            lines.push("hello".to_string());
        });
        let [unpack, function, check] = bytemuck::cast(code);
        let fingerprint = fingerprint();
        assert_eq!(answer([unpack, function, check]), format!("ran true, calls 42, hello, fingerprint {fingerprint}"));
        assert_eq!(answer([unpack, function, !check]), format!("ran false, calls 0, , fingerprint {fingerprint}"));
    }
}
