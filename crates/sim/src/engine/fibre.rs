//! Fibres: functions that can be suspended and resumed, each on its own stack, all in one thread.
//!
//! All `unsafe` code of the simulator is here, behind a safe interface: [`run`] owns the fibres, so that none outlives
//! what its function borrows; [`Suspender::suspend`] works only in the fibre that it belongs to, while that is the one
//! that runs. It must not be called during unwinding: the panic count belongs to the thread, so other fibres would see
//! it.
//!
//! Below each stack lies a guard page. A fibre that overflows its stack touches it and raises SIGSEGV. A handler then
//! reports which fibre it was and how large its stack is, and calls the previous handler ([`overflow`]).
//!
//! Only fibres of this file are known here. A coroutine of another kind that runs inside a fibre is part of it: it is
//! suspended and resumed along with the fibre, and stays where it is if the fibre never resumes.

#![allow(unsafe_code, reason = "a fibre reaches its own stack switch from deep inside")]

use std::cell::{Cell, RefCell};
use std::io;
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

thread_local! {
    /// The link of the fibre that runs in this thread; null if none does. Only compared, never dereferenced.
    static CURRENT: Cell<*const FibreLink> = const { Cell::new(ptr::null()) };
}

/// State that a fibre shares with its suspenders.
struct FibreLink {
    /// Yielder of the fibre while its function runs; null otherwise.
    yielder: Cell<*const Yielder<(), ()>>,
}

/// Suspends a fibre. It may outlive the fibre and be moved to others; it has no effect there.
#[derive(Clone)]
pub(super) struct Suspender(Rc<FibreLink>);

impl Suspender {
    /// Whether the caller runs in this fibre, and in none that was started inside it.
    pub(super) fn is_current(&self) -> bool {
        ptr::eq(CURRENT.get(), Rc::as_ptr(&self.0)) && !self.0.yielder.get().is_null()
    }

    /// Whether the fibre has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.0.yielder.get().is_null()
    }

    /// Suspends the fibre until it is resumed.
    ///
    /// # Panics
    /// If the caller is not in this fibre, or during unwinding.
    pub(super) fn suspend(&self) {
        assert!(self.is_current(), "a fibre can only be suspended from inside");
        assert!(!std::thread::panicking(), "a fibre cannot be suspended while a panic unwinds");
        // The link of this fibre is `CURRENT`, which `Fibres::resume` sets while it is inside that fibre and restores
        // when it leaves it: so this runs in the fibre, above no other one of `Fibres`. A coroutine of another kind
        // between them is on its own stack, which stays as it is until the fibre resumes.
        // SAFETY: the pointer is set when the fibre's function begins and cleared when it ends, so the yielder, which
        // lies at the bottom of the fibre's stack, exists; and the fibre is the one that runs, as said above.
        unsafe { (*self.0.yielder.get()).suspend(()) }
    }
}

/// Clears the yielder when the function of a fibre ends, also by a panic.
struct ClearYielder<'a>(&'a FibreLink);

impl Drop for ClearYielder<'_> {
    fn drop(&mut self) {
        self.0.yielder.set(ptr::null());
    }
}

/// Restores the fibre that ran before, also after a panic.
struct RestoreCurrent(*const FibreLink, overflow::Running);

impl Drop for RestoreCurrent {
    fn drop(&mut self) {
        CURRENT.set(self.0);
        overflow::RUNNING.set(self.1);
    }
}

type Fibre = (Rc<FibreLink>, overflow::Running, RefCell<Coroutine<(), (), (), DefaultStack>>);

/// Fibres by number.
pub(super) struct Fibres(Vec<Fibre>);

impl Fibres {
    /// Resumes a fibre until it is suspended or ends. Returns whether it has ended. A panic in it propagates to the
    /// caller.
    ///
    /// # Panics
    /// If it has ended, or is running.
    pub(super) fn resume(&self, number: usize) -> bool {
        let (link, running, coroutine) = &self.0[number];
        let mut coroutine = coroutine.borrow_mut();
        let _restore = RestoreCurrent(CURRENT.replace(Rc::as_ptr(link)), overflow::RUNNING.replace(*running));
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }
}

/// Turns the guard page of a stack, a mapping of its own without access, into a guard region of the stack's mapping
/// (`MADV_GUARD_INSTALL`, Linux 6.13), so that adjacent stacks merge into one mapping. Without it each stack takes two of the
/// 65,530 mappings that a process may have by default (`vm.max_map_count`).
fn join_guard_page(stack: &DefaultStack) -> io::Result<()> {
    if !has_guard_regions() {
        return Ok(());
    }
    let (page, len) = (stack.limit().get() as *mut libc::c_void, overflow::page_size());
    // The mapping joins its neighbors before it has pages: later it could not.
    // SAFETY: the lowest page of a stack is its guard page, which nothing refers to. If it cannot become a guard region, it gets
    // its protection back, and without one the stack is not used.
    let is_guarded = unsafe {
        libc::mprotect(page, len, libc::PROT_READ | libc::PROT_WRITE) != 0
            || libc::madvise(page, len, MADV_GUARD_INSTALL) == 0
            || libc::mprotect(page, len, libc::PROT_NONE) == 0
    };
    if is_guarded { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel has guard regions. Emulators of it may accept any advice and do nothing, so a system call is to fail on one.
fn has_guard_regions() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let (len, access) = (overflow::page_size(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, to which only these calls refer. `getrandom` reports memory that it cannot write to.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), len, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            if page == libc::MAP_FAILED {
                return false;
            }
            let is_guarded = libc::madvise(page, len, MADV_GUARD_INSTALL) == 0
                && libc::getrandom(page, 1, 0) == -1
                && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
            libc::munmap(page, len);
            is_guarded
        }
    })
}

/// What to tell of a stack that could not be made.
fn with_limit_of_mappings(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ENOMEM) && !has_guard_regions() {
        let limit = "before Linux 6.13, a process can have at most vm.max_map_count / 2 stacks";
        return io::Error::new(error.kind(), format!("{error} ({limit})"));
    }
    error
}

const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Makes a fibre of each function, with a stack of `stack_size` bytes, and calls `drive` with them. Fibres that have
/// not ended when it returns are unwound; they cannot be suspended then.
///
/// # Errors
/// The number of the first fibre for which there is no stack.
pub(super) fn run<'env, F, R>(
    functions: impl IntoIterator<Item = F>,
    stack_size: usize,
    drive: impl FnOnce(&Fibres) -> R,
) -> Result<R, (usize, io::Error)>
where
    F: FnOnce(Suspender) + 'env,
{
    overflow::install();
    let mut fibres = Vec::new();
    for (number, function) in functions.into_iter().enumerate() {
        let stack = DefaultStack::new(stack_size).and_then(|stack| join_guard_page(&stack).map(|()| stack));
        let stack = stack.map_err(|error| (number, with_limit_of_mappings(error)))?;
        let running = overflow::Running { number, stack_size, limit: stack.limit().get() };
        let link = Rc::new(FibreLink { yielder: Cell::new(ptr::null()) });
        let fibre_link = link.clone();
        let body = move |yielder: &Yielder<(), ()>, ()| {
            fibre_link.yielder.set(yielder);
            let _clear = ClearYielder(&fibre_link);
            function(Suspender(fibre_link.clone()));
        };
        // SAFETY: what `body` borrows lives for 'env, which outlasts this call. The coroutine is dropped before this
        // call returns or unwinds, which ends it or aborts: `fibres` owns it, `drive` gets a shared reference to a type
        // from which it cannot move anything out, and nothing here forgets it.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, body) };
        fibres.push((link, running, RefCell::new(coroutine)));
    }
    Ok(drive(&Fibres(fibres)))
}

/// Reports stack overflows: the rank, the size and the option, instead of a bare SIGSEGV.
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
        pub(super) stack_size: usize,
        /// The lowest address of its guard page; 0 if no fibre runs.
        pub(super) limit: usize,
    }

    thread_local! {
        /// For the handler: initialized without code and without a destructor, so that a signal handler may read it at
        /// any time.
        pub(super) static RUNNING: Cell<Running> = const { Cell::new(Running { number: 0, stack_size: 0, limit: 0 }) };
    }

    /// The previous action of SIGSEGV.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
    /// Size of the guard page in bytes.
    static PAGE: OnceLock<usize> = OnceLock::new();
    /// An overflow was reported. If the previous handler returns, the second fault takes the default action.
    static REPORTED: AtomicBool = AtomicBool::new(false);

    /// Size of a page in bytes.
    pub(super) fn page_size() -> usize {
        // SAFETY: `sysconf` only returns a number.
        *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize)
    }

    /// Installs the handler, once. Rust threads have an alternate signal stack; on other threads, and should the system
    /// refuse, an overflow stays a bare SIGSEGV.
    pub(super) fn install() {
        BEFORE.get_or_init(|| {
            page_size();
            // SAFETY: zeros are a valid sigaction; the handler has the signature that SA_SIGINFO requires, and both
            // actions are valid for the call. Until `BEFORE` is set the handler assumes that the signal had its default
            // action.
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

    /// Async-signal-safe: reads initialized statics, writes to a local buffer, and calls write and sigaction.
    extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid siginfo with SA_SIGINFO, and a fault has an address.
        let address = unsafe { (*info).si_addr() } as usize;
        let running = RUNNING.get();
        let page = PAGE.get().copied().unwrap_or(1);
        if running.limit != 0 && (running.limit..running.limit + page).contains(&address) {
            if REPORTED.swap(true, Ordering::Relaxed) {
                return restore_default_action(signal);
            }
            report(running);
        }
        let before = BEFORE.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
        let flags = BEFORE.get().map_or(0, |before| before.sa_flags);
        if before == libc::SIG_DFL || before == libc::SIG_IGN {
            restore_default_action(signal)
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

    /// Restores the default action: the faulting instruction runs again, and the kernel ends the process.
    fn restore_default_action(signal: i32) {
        // SAFETY: zeros are a valid sigaction, the default one.
        unsafe {
            let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            libc::sigaction(signal, &default, ptr::null_mut());
        }
    }

    fn report(running: Running) {
        let mut line = Line { bytes: [0; 256], len: 0 };
        line.text("treepie: simulated rank ");
        line.number(running.number);
        line.text(" overflowed its stack of ");
        line.number(running.stack_size);
        line.text(" bytes; set a larger Options::stack_size in treepie::simulate::simulate_with\n");
        // SAFETY: writes initialized bytes. Output that cannot be written is lost.
        unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.len) };
    }

    /// A line formatted without allocation; what does not fit is truncated.
    struct Line {
        bytes: [u8; 256],
        len: usize,
    }

    impl Line {
        fn text(&mut self, text: &str) {
            for &byte in text.as_bytes() {
                if let Some(slot) = self.bytes.get_mut(self.len) {
                    *slot = byte;
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
        let log = RefCell::new(Vec::new());
        let append = |number: usize| {
            let log = &log;
            move |suspender: Suspender| {
                for turn in 0..3 {
                    log.borrow_mut().push((turn, number));
                    suspender.suspend();
                }
            }
        };
        let ended = run([append(0), append(1)], STACK, |fibres| {
            (0..8).map(|turn| fibres.resume(turn % 2)).filter(|ended| *ended).count()
        });
        assert_eq!(ended.ok(), Some(2));
        assert_eq!(*log.borrow(), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn only_the_fibre_itself_can_suspend() {
        let saved: RefCell<Option<Suspender>> = RefCell::new(None);
        let refused = |suspender: &Suspender| catch_unwind(AssertUnwindSafe(|| suspender.suspend())).is_err();
        let functions: [Box<dyn FnOnce(Suspender)>; 2] = [
            Box::new(|own| {
                *saved.borrow_mut() = Some(own.clone());
                own.suspend();
            }),
            Box::new(|own| {
                let other = saved.borrow().clone().expect("the other was first");
                assert!(own.is_current() && !other.is_current() && refused(&other));
                // A nested fibre is not this one.
                let inner = |_: Suspender| assert!(!own.is_current() && refused(&own));
                assert!(run([inner], STACK, |fibres| fibres.resume(0)).is_ok_and(|ended| ended));
                assert!(own.is_current());
            }),
        ];
        let ended = run(functions, STACK, |fibres| [0, 1, 0].map(|number| fibres.resume(number)));
        assert_eq!(ended.ok(), Some([false, true, true]));
        assert!(refused(&saved.take().expect("saved")), "it has ended");
    }

    #[test]
    fn unfinished_fibres_are_unwound_and_cannot_suspend() {
        struct Noisy<'a>(&'a Cell<u32>, Suspender);
        impl Drop for Noisy<'_> {
            fn drop(&mut self) {
                assert!(!self.1.is_current());
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Cell::new(0);
        let function = |own: Suspender| {
            let _noisy = Noisy(&dropped, own.clone());
            own.suspend();
            unreachable!("it is never resumed");
        };
        assert!(run([function, function], STACK, |fibres| fibres.resume(0)).is_ok_and(|ended| !ended));
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn stacks_are_few_mappings_where_the_kernel_can() {
        let mappings = || std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
        let before = mappings();
        let during = run((0..1000).map(|_| |_: Suspender| ()), STACK, |_| mappings())
            .unwrap_or_else(|(_, error)| panic!("{error}"));
        let most = if has_guard_regions() { 100 } else { 2500 };
        assert!(during < before + most, "{before} mappings, {during} with a thousand stacks");
    }

    #[test]
    fn a_panic_propagates_to_the_resumer() {
        let function = |_: Suspender| std::panic::resume_unwind(Box::new(7u32));
        let panic = catch_unwind(|| run([function], STACK, |fibres| fibres.resume(0))).map(drop);
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&7u32));
        assert!(CURRENT.get().is_null());
    }
}
