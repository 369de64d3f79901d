//! Functions that can be left in the middle and gone on with: each runs on a stack of its own, all in one thread.
//!
//! Everything `unsafe` of the simulator is here, and what it offers is safe: [`run`] owns the fibres, so that none outlives
//! what its function borrows; [`Suspender::suspend`] works only in the fibre that it belongs to, while that is the one that
//! runs. It must not be called while a panic unwinds: the count of panics belongs to the thread, so others would see it.
//!
//! Below each stack lies a guard page. A fibre that needs more than its stack touches it, which is a SIGSEGV: a handler then says
//! which fibre it was and how large its stack is, before whoever handled the signal until then is asked ([`overflow`]).
//!
//! Only fibres of this file are known here. A coroutine of another kind that runs inside of a fibre is part of it: it is left
//! and gone on with along with the fibre, and stays where it is if the fibre never goes on.

#![allow(unsafe_code, reason = "a fibre reaches its own stack switch from deep inside")]

use std::cell::{Cell, RefCell};
use std::io;
use std::ptr;
use std::rc::Rc;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

thread_local! {
    /// The link of the fibre that runs in this thread; null if none does. Only compared, never followed.
    static CURRENT: Cell<*const Link> = const { Cell::new(ptr::null()) };
}

/// What a fibre shares with those that suspend it.
struct Link {
    /// Of the fibre, from its first to its last moment; null otherwise.
    yielder: Cell<*const Yielder<(), ()>>,
}

/// Leaves a fibre in the middle. It can be kept beyond the fibre's end and be handed to others; it is of no use there.
#[derive(Clone)]
pub(super) struct Suspender(Rc<Link>);

impl Suspender {
    /// Whether the caller is in this fibre, and in none that was begun inside it.
    pub(super) fn is_here(&self) -> bool {
        ptr::eq(CURRENT.get(), Rc::as_ptr(&self.0)) && !self.0.yielder.get().is_null()
    }

    /// Whether the fibre has ended.
    pub(super) fn is_over(&self) -> bool {
        self.0.yielder.get().is_null()
    }

    /// Leaves the fibre until it is resumed.
    ///
    /// # Panics
    /// If the caller is not in this fibre, or a panic unwinds.
    pub(super) fn suspend(&self) {
        assert!(self.is_here(), "a fibre is to be suspended from outside of it");
        assert!(!std::thread::panicking(), "a fibre is to be suspended while a panic unwinds");
        // The link of this fibre is `CURRENT`, which `Fibres::resume` sets while it is inside that fibre and puts back when
        // it leaves it: so this runs in the fibre, above no other one of `Fibres`. A coroutine of another kind between them
        // is on a stack of its own, which stays as it is until the fibre goes on.
        // SAFETY: the pointer is set when the fibre's function begins and cleared when it ends, so the yielder, which lies
        // at the bottom of the fibre's stack, exists; and the fibre is the one that runs, as said above.
        unsafe { (*self.0.yielder.get()).suspend(()) }
    }
}

/// Makes the yielder unreachable when the function of a fibre ends, also by a panic.
struct Reachable<'a>(&'a Link);

impl Drop for Reachable<'_> {
    fn drop(&mut self) {
        self.0.yielder.set(ptr::null());
    }
}

/// Puts the fibre back that ran before, also after a panic.
struct Before(*const Link, overflow::Running);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0);
        overflow::RUNNING.set(self.1);
    }
}

type Fibre = (Rc<Link>, overflow::Running, RefCell<Coroutine<(), (), (), DefaultStack>>);

/// Fibres that have not all ended, by number.
pub(super) struct Fibres(Vec<Fibre>);

impl Fibres {
    /// Goes on with a fibre until it is suspended or ends. Returns whether it has ended. A panic in it goes on here.
    ///
    /// # Panics
    /// If it has ended before, or runs.
    pub(super) fn resume(&self, number: usize) -> bool {
        let (link, running, coroutine) = &self.0[number];
        let mut coroutine = coroutine.borrow_mut();
        let _before = Before(CURRENT.replace(Rc::as_ptr(link)), overflow::RUNNING.replace(*running));
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }
}

/// Makes a fibre of each of these functions, with a stack of so many bytes, and calls `drive` with them. Fibres that have
/// not ended when that returns are unwound; they cannot be suspended then.
///
/// # Errors
/// The number of the first fibre for which there is no stack.
pub(super) fn run<'env, F, R>(
    functions: impl IntoIterator<Item = F>,
    stack: usize,
    drive: impl FnOnce(&Fibres) -> R,
) -> Result<R, (usize, io::Error)>
where
    F: FnOnce(Suspender) + 'env,
{
    overflow::install();
    let mut fibres = Vec::new();
    for (number, function) in functions.into_iter().enumerate() {
        let bytes = stack;
        let stack = DefaultStack::new(bytes).map_err(|error| (number, error))?;
        let running = overflow::Running { number, stack: bytes, limit: stack.limit().get() };
        let link = Rc::new(Link { yielder: Cell::new(ptr::null()) });
        let own = link.clone();
        let body = move |yielder: &Yielder<(), ()>, ()| {
            own.yielder.set(yielder);
            let _reachable = Reachable(&own);
            function(Suspender(own.clone()));
        };
        // SAFETY: what `body` borrows lives for 'env, which outlasts this call. The coroutine is dropped before this call
        // returns or unwinds, which ends it or aborts: `fibres` owns it, `drive` gets a shared reference to a type of which
        // it cannot take anything, and nothing here forgets it.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, body) };
        fibres.push((link, running, RefCell::new(coroutine)));
    }
    Ok(drive(&Fibres(fibres)))
}

/// What a fibre says that has no stack left: the rank, the size and the option, instead of a bare SIGSEGV.
mod overflow {
    use std::cell::Cell;
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The fibre that runs in a thread.
    #[derive(Clone, Copy)]
    pub(super) struct Running {
        pub(super) number: usize,
        /// Bytes of its stack.
        pub(super) stack: usize,
        /// The lowest address of its guard page; 0 if no fibre runs.
        pub(super) limit: usize,
    }

    thread_local! {
        /// For the handler: initialised without code and without a destructor, so that a signal may read it at any time.
        pub(super) static RUNNING: Cell<Running> = const { Cell::new(Running { number: 0, stack: 0, limit: 0 }) };
    }

    /// Who handled SIGSEGV before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
    /// The bytes that the guard page has.
    static PAGE: OnceLock<usize> = OnceLock::new();
    /// A fibre has said it; whoever is asked next may return, and then it is over.
    static SAID: AtomicBool = AtomicBool::new(false);

    /// Installs the handler, once. Threads of Rust have a stack for signals of their own; on others, and should the system
    /// refuse, an overflow stays a bare SIGSEGV.
    pub(super) fn install() {
        BEFORE.get_or_init(|| {
            // SAFETY: asks for a number.
            PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize);
            // SAFETY: zeros are a valid sigaction; the handler has the form that SA_SIGINFO asks for, and both actions are
            // valid for the call. Until `BEFORE` is set the handler takes the signal to have had its default action.
            unsafe {
                let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as libc::sighandler_t;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(libc::SIGSEGV, &action, &mut before);
                before
            }
        });
    }

    /// Async-signal-safe: reads what is initialised, writes to a buffer of its own, and calls write and sigaction.
    extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel hands out valid information with SA_SIGINFO, and a fault has an address.
        let address = unsafe { (*info).si_addr() } as usize;
        let running = RUNNING.get();
        let page = PAGE.get().copied().unwrap_or(1);
        if running.limit != 0 && (running.limit..running.limit + page).contains(&address) {
            if SAID.swap(true, Ordering::Relaxed) {
                return die(signal);
            }
            say(running);
        }
        let before = BEFORE.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
        let flags = BEFORE.get().map_or(0, |before| before.sa_flags);
        if before == libc::SIG_DFL || before == libc::SIG_IGN {
            die(signal)
        } else if flags & libc::SA_SIGINFO != 0 {
            // SAFETY: this address was installed as a handler of this form.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(before) };
            handler(signal, info, context);
        } else {
            // SAFETY: as above.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(before) };
            handler(signal);
        }
    }

    /// The default action: the instruction that faulted is tried again, and the kernel ends the process.
    fn die(signal: i32) {
        // SAFETY: zeros are a valid sigaction, the default one.
        unsafe {
            let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            libc::sigaction(signal, &default, ptr::null_mut());
        }
    }

    fn say(running: Running) {
        let mut line = Line { bytes: [0; 256], len: 0 };
        line.text("treepie: simulated rank ");
        line.number(running.number);
        line.text(" overflowed its stack of ");
        line.number(running.stack);
        line.text(" bytes; more are given by Options { stack, .. } of treepie::simulate::simulate_with\n");
        // SAFETY: writes initialised bytes. What cannot be written is lost.
        unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.len) };
    }

    /// A line that is put together without an allocation; what does not fit is left out.
    struct Line {
        bytes: [u8; 256],
        len: usize,
    }

    impl Line {
        fn text(&mut self, text: &str) {
            for &byte in text.as_bytes() {
                if let Some(place) = self.bytes.get_mut(self.len) {
                    *place = byte;
                    self.len += 1;
                }
            }
        }

        fn number(&mut self, number: usize) {
            let mut unit = 1;
            while number / unit >= 10 {
                unit *= 10;
            }
            while unit > 0 {
                self.text(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"][number / unit % 10]);
                unit /= 10;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const STACK: usize = 64 << 10;

    #[test]
    fn fibres_take_turns_and_borrow() {
        let said = RefCell::new(Vec::new());
        let speak = |number: usize| {
            let said = &said;
            move |suspender: Suspender| {
                for turn in 0..3 {
                    said.borrow_mut().push((turn, number));
                    suspender.suspend();
                }
            }
        };
        let ended = run([speak(0), speak(1)], STACK, |fibres| {
            (0..8).map(|turn| fibres.resume(turn % 2)).filter(|ended| *ended).count()
        });
        assert_eq!(ended.ok(), Some(2));
        assert_eq!(*said.borrow(), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn nobody_else_suspends_a_fibre() {
        let kept: RefCell<Option<Suspender>> = RefCell::new(None);
        let refused = |suspender: &Suspender| catch_unwind(AssertUnwindSafe(|| suspender.suspend())).is_err();
        let functions: [Box<dyn FnOnce(Suspender)>; 2] = [
            Box::new(|own| {
                *kept.borrow_mut() = Some(own.clone());
                own.suspend();
            }),
            Box::new(|own| {
                let other = kept.borrow().clone().expect("the other was first");
                assert!(own.is_here() && !other.is_here() && refused(&other));
                // One that is begun inside this one is not this one.
                let inner = |_: Suspender| assert!(!own.is_here() && refused(&own));
                assert!(run([inner], STACK, |fibres| fibres.resume(0)).is_ok_and(|ended| ended));
                assert!(own.is_here());
            }),
        ];
        let ended = run(functions, STACK, |fibres| [0, 1, 0].map(|number| fibres.resume(number)));
        assert_eq!(ended.ok(), Some([false, true, true]));
        assert!(refused(&kept.take().expect("kept")), "it has ended");
    }

    #[test]
    fn what_has_not_ended_is_unwound_without_a_stop() {
        struct Noisy<'a>(&'a Cell<u32>, Suspender);
        impl Drop for Noisy<'_> {
            fn drop(&mut self) {
                assert!(!self.1.is_here());
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Cell::new(0);
        let function = |own: Suspender| {
            let _noisy = Noisy(&dropped, own.clone());
            own.suspend();
            unreachable!("nobody resumes it");
        };
        assert!(run([function, function], STACK, |fibres| fibres.resume(0)).is_ok_and(|ended| !ended));
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_panic_goes_on_where_the_fibre_was_resumed() {
        let function = |_: Suspender| std::panic::resume_unwind(Box::new(7u32));
        let panic = catch_unwind(|| run([function], STACK, |fibres| fibres.resume(0))).map(drop);
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&7u32));
        assert!(CURRENT.get().is_null());
    }
}
