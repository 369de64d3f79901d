//! Copying to and from the memory of another rank.

use std::sync::atomic::{AtomicU8, Ordering};

use treepie_base::Span;

/// How this rank accesses the memory of peers.
pub(crate) enum PeerAccess {
    /// Peers are processes: cross-memory attach (`process_vm_readv`), which needs the permission to trace them.
    Cma(CmaPermission),
    /// Peers are threads of this process.
    SharedAddressSpace,
    /// Not at all: large messages go through the rings.
    Unavailable,
}

/// Whether cross-memory attach is permitted, as far as tested.
pub(crate) struct CmaPermission(AtomicU8);

const UNKNOWN: u8 = 0;
const ALLOWED: u8 = 1;
const DENIED: u8 = 2;

impl PeerAccess {
    /// The mechanism, as far as known before the first access: `TREEPIE_SINGLE_COPY=off` forbids it.
    pub(crate) fn new(threads: bool) -> Self {
        // An invalid value was reported when the world was created.
        if !treepie_base::environment::single_copy().unwrap_or(true) {
            Self::Unavailable
        } else if threads {
            Self::SharedAddressSpace
        } else {
            Self::Cma(CmaPermission(AtomicU8::new(UNKNOWN)))
        }
    }

    /// Whether the memory of the process `pid` can be read; tests it at `address` until the kernel has permitted or
    /// denied it.
    pub(crate) fn is_available(&self, pid: i32, address: u64) -> bool {
        match self {
            Self::SharedAddressSpace => true,
            Self::Unavailable => false,
            Self::Cma(CmaPermission(known)) => {
                if known.load(Ordering::Relaxed) == UNKNOWN {
                    let mut byte = 0u8;
                    let answer = match process_vm(Direction::Read, pid, address, &raw mut byte, 1) {
                        Ok(()) => ALLOWED,
                        // Errors of the system or of the permission, not of the peer.
                        Err(libc::EPERM | libc::ENOSYS) => DENIED,
                        Err(_) => return false,
                    };
                    known.store(answer, Ordering::Relaxed);
                }
                known.load(Ordering::Relaxed) == ALLOWED
            }
        }
    }

    /// Reads a peer's memory into `len` bytes of `span` from `first` on; the peer may write other bytes of it at the
    /// same time. False if the peer is gone.
    ///
    /// # Safety
    /// If the peer is a thread, `len` bytes at `address` must stay readable, and unwritten, until this returns. No
    /// other thread may access those bytes of the span meanwhile.
    pub(crate) unsafe fn read(&self, pid: i32, address: u64, span: &mut Span, first: usize, len: usize) -> bool {
        assert!(span.is_writable() && first.checked_add(len).is_some_and(|end| end <= span.len()));
        // SAFETY: in bounds, as just tested.
        let into = unsafe { span.address().add(first) }.as_ptr();
        match self {
            Self::Cma(_) => process_vm(Direction::Read, pid, address, into, len).is_ok(),
            Self::Unavailable => false,
            Self::SharedAddressSpace => {
                let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
                // SAFETY: the caller's promise; the span's bytes were just tested, and a span that is written overlaps
                // no memory that others read.
                unsafe { into.copy_from_nonoverlapping(from, len) };
                true
            }
        }
    }

    /// Reads the memory of a peer that is a process. False if it is a thread, or gone, or may not be read.
    pub(crate) fn read_process(&self, pid: i32, address: u64, into: &mut [u8]) -> bool {
        matches!(self, Self::Cma(_)) && process_vm(Direction::Read, pid, address, into.as_mut_ptr(), into.len()).is_ok()
    }

    /// Writes to a peer's memory. False if the peer is gone.
    ///
    /// # Safety
    /// The peer must have reserved `from.len()` bytes at `address` for this rank to write until this returns.
    pub(crate) unsafe fn write(&self, pid: i32, address: u64, from: &[u8]) -> bool {
        match self {
            Self::Cma(_) => process_vm(Direction::Write, pid, address, from.as_ptr().cast_mut(), from.len()).is_ok(),
            Self::Unavailable => false,
            Self::SharedAddressSpace => {
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

/// Copies bytes, or returns the `errno`.
fn process_vm(direction: Direction, pid: i32, address: u64, local: *mut u8, len: usize) -> Result<(), i32> {
    let mut done = 0;
    while done < len {
        // SAFETY: `local` is valid for `len` bytes, for writing if this is a read (the callers see to it). The
        // other address is the peer's matter: the kernel checks it.
        let copied = unsafe {
            let local_iov = libc::iovec { iov_base: local.add(done).cast(), iov_len: len - done };
            let remote_iov = libc::iovec { iov_base: (address as usize + done) as *mut _, iov_len: len - done };
            match direction {
                Direction::Read => libc::process_vm_readv(pid, &local_iov, 1, &remote_iov, 1, 0),
                Direction::Write => libc::process_vm_writev(pid, &local_iov, 1, &remote_iov, 1, 0),
            }
        };
        match copied {
            1.. => done += copied as usize,
            0 => return Err(libc::EFAULT),
            _ => return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EFAULT)),
        }
    }
    Ok(())
}

/// Lets the other ranks access this process where the kernel only allows its parents to.
pub(crate) fn permit_cma() {
    // SAFETY: this call only changes who may trace this process. It fails where no such restriction exists.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}
