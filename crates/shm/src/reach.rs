//! Copying to and from the memory of another rank.

use std::sync::atomic::{AtomicU8, Ordering};

use treepie_base::Span;

/// How the memory of peers is reached.
pub(crate) enum Reach {
    /// Peers are processes: by the kernel, which asks for the right to trace them.
    Process(Permission),
    /// Peers are threads of this process.
    Thread,
    /// Not at all: large messages go through the rings.
    Nowhere,
}

/// What trying has shown.
pub(crate) struct Permission(AtomicU8);

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

impl Reach {
    /// As far as known before trying: `TREEPIE_SINGLE_COPY=off` forbids it.
    pub(crate) fn new(threads: bool) -> Self {
        // A bad value was refused where the world began.
        if !treepie_base::environment::single_copy().unwrap_or(true) {
            Self::Nowhere
        } else if threads {
            Self::Thread
        } else {
            Self::Process(Permission(AtomicU8::new(UNKNOWN)))
        }
    }

    /// Whether the memory of the process `pid` can be read; the kernel is asked, at the address given, until it has
    /// said yes or that it never will.
    pub(crate) fn works(&self, pid: i32, address: u64) -> bool {
        match self {
            Self::Thread => true,
            Self::Nowhere => false,
            Self::Process(Permission(known)) => {
                if known.load(Ordering::Relaxed) == UNKNOWN {
                    let mut byte = 0u8;
                    let answer = match process_vm(Direction::Read, pid, address, &raw mut byte, 1) {
                        Ok(()) => YES,
                        // Not of the peer, but of the system or the permission.
                        Err(libc::EPERM | libc::ENOSYS) => NO,
                        Err(_) => return false,
                    };
                    known.store(answer, Ordering::Relaxed);
                }
                known.load(Ordering::Relaxed) == YES
            }
        }
    }

    /// Reads a peer's memory into `len` bytes of `span` from `first` on; the peer may write to others of its bytes at
    /// the same time. False if the peer is gone.
    ///
    /// # Safety
    /// If the peer is a thread, so many bytes must lie at `address`, and stay readable until this returns, without anybody
    /// who writes them. Nobody else may touch those bytes of the span meanwhile.
    pub(crate) unsafe fn read(&self, pid: i32, address: u64, span: &mut Span, first: usize, len: usize) -> bool {
        assert!(span.is_writable() && first.checked_add(len).is_some_and(|end| end <= span.len()));
        // SAFETY: in bounds, as just tested.
        let into = unsafe { span.address().add(first) }.as_ptr();
        match self {
            Self::Process(_) => process_vm(Direction::Read, pid, address, into, len).is_ok(),
            Self::Nowhere => false,
            Self::Thread => {
                let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
                // SAFETY: the caller's promise; the span's bytes were just tested, and a span that is written overlaps no
                // memory that others read.
                unsafe { into.copy_from_nonoverlapping(from, len) };
                true
            }
        }
    }

    /// Reads the memory of a peer that is a process. False if it is a thread, or gone, or may not be read.
    pub(crate) fn read_process(&self, pid: i32, address: u64, into: &mut [u8]) -> bool {
        matches!(self, Self::Process(_))
            && process_vm(Direction::Read, pid, address, into.as_mut_ptr(), into.len()).is_ok()
    }

    /// Writes a peer's memory. False if the peer is gone.
    ///
    /// # Safety
    /// The peer must have set so many bytes at `address` aside for this rank to write, until this returns.
    pub(crate) unsafe fn write(&self, pid: i32, address: u64, from: &[u8]) -> bool {
        match self {
            Self::Process(_) => {
                process_vm(Direction::Write, pid, address, from.as_ptr().cast_mut(), from.len()).is_ok()
            }
            Self::Nowhere => false,
            Self::Thread => {
                let into = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
                // SAFETY: the caller's promise; what is written by this rank alone does not overlap what it reads.
                unsafe { into.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                true
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Read,
    Write,
}

/// Moves bytes, or tells why not, as `errno`.
fn process_vm(direction: Direction, pid: i32, address: u64, local: *mut u8, len: usize) -> Result<(), i32> {
    let mut done = 0;
    while done < len {
        // SAFETY: `local` is valid for `len` bytes, for writing if this is a read (the callers see to it). The
        // other address is the peer's matter: the kernel checks it.
        let moved = unsafe {
            let mine = libc::iovec { iov_base: local.add(done).cast(), iov_len: len - done };
            let theirs = libc::iovec { iov_base: (address as usize + done) as *mut _, iov_len: len - done };
            match direction {
                Direction::Read => libc::process_vm_readv(pid, &mine, 1, &theirs, 1, 0),
                Direction::Write => libc::process_vm_writev(pid, &mine, 1, &theirs, 1, 0),
            }
        };
        match moved {
            1.. => done += moved as usize,
            0 => return Err(libc::EFAULT),
            _ => return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EFAULT)),
        }
    }
    Ok(())
}

/// Lets the other ranks of this user's job reach this process where the kernel only allows parents to.
pub(crate) fn permit_peers() {
    // SAFETY: this call only changes who may trace this process. It fails where no such restriction exists.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}
