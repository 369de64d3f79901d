//! The functions of `shim.c`, found in a shared object at run time.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::SetupError;
use crate::cache::Kept;

/// The C file, compiled by the user's `mpicc`.
pub(crate) const SOURCE: &str = include_str!("shim.c");

const INTERFACE: i32 = 1;
const NONE: i32 = -1;
const ANYBODY: i32 = -1;

/// A request in flight, until a test reports it done.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Request(i32);

/// What MPI says of the world; `struct world` in the C file.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct World {
    pub(crate) rank: i32,
    pub(crate) size: i32,
    pub(crate) largest_tag: i32,
    pub(crate) node_ranks: i32,
    pub(crate) node_cpus: i32,
}

/// Whose message a receive took, and how long it was; `struct outcome` in the C file.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Outcome {
    pub(crate) source: i32,
    pub(crate) length: i32,
}

/// The loaded shim. MPI is used by one thread, so this must not leave it.
pub(crate) struct Shim {
    begin: unsafe extern "C" fn(*mut World) -> i32,
    library: unsafe extern "C" fn(*mut c_char, i32),
    isend: unsafe extern "C" fn(*const c_void, u64, i32, i32) -> i32,
    irecv: unsafe extern "C" fn(*mut c_void, u64, i32, i32) -> i32,
    ibarrier: unsafe extern "C" fn() -> i32,
    test: unsafe extern "C" fn(i32, *mut Outcome) -> i32,
    test_any: unsafe extern "C" fn(*const i32, i32) -> i32,
    cancel: unsafe extern "C" fn(i32),
    end: unsafe extern "C" fn(),
    abort: unsafe extern "C" fn(i32),
    one_thread: PhantomData<*const ()>,
}

/// Ends all ranks, from any thread: MPI allows that whatever else goes on, as the process ends.
#[derive(Clone, Copy)]
pub(crate) struct Aborter(unsafe extern "C" fn(i32));

impl Aborter {
    pub(crate) fn abort(self, code: i32) -> ! {
        // SAFETY: it takes nothing that could be wrong, and the shim is never unloaded.
        unsafe { (self.0)(code) };
        unreachable!("the shim ends the process")
    }
}

impl Shim {
    /// Loads a compiled shim, and with it its MPI, for the rest of the process.
    pub(crate) fn load(kept: Kept) -> Result<Self, SetupError> {
        let path = kept.path();
        let failed = |error: libloading::Error| SetupError::load(path, error);
        // Open MPI opens plugins that expect its symbols to be visible: hence global.
        // SAFETY: loading runs the initialisers of the shim, which has none, since `Kept` is what this user had
        // compiled, and of the user's MPI, which is trusted.
        let library = unsafe { Library::open(Some(kept.loadable()), RTLD_NOW | RTLD_GLOBAL) }.map_err(failed)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type of the field that takes it is that of the function in `shim.c`; the interface's
                // number below shows that it was that file.
                *unsafe { library.get(concat!("treepie_mpi_", $name).as_bytes()) }.map_err(failed)?
            };
        }
        let interface: unsafe extern "C" fn() -> i32 = function!("interface");
        // SAFETY: it returns a constant.
        if unsafe { interface() } != INTERFACE {
            return Err(SetupError::load(path, "it belongs to another version of Treepie"));
        }
        let shim = Self {
            begin: function!("begin"),
            library: function!("library"),
            isend: function!("isend"),
            irecv: function!("irecv"),
            ibarrier: function!("ibarrier"),
            test: function!("test"),
            test_any: function!("test_any"),
            cancel: function!("cancel"),
            end: function!("end"),
            abort: function!("abort"),
            one_thread: PhantomData,
        };
        // MPI leaves exit handlers and threads behind, so it is never unloaded; `shim` relies on that.
        std::mem::forget(library);
        // The loader knows libraries by their paths: the descriptor's number must not become another file's.
        std::mem::forget(kept);
        Ok(shim)
    }

    /// Starts MPI if nobody has, or nothing if it has already ended in this process. All ranks do this together.
    pub(crate) fn begin(&self) -> Option<World> {
        let mut world = World::default();
        // SAFETY: `World` is `struct world`.
        (unsafe { (self.begin)(&mut world) } == 0).then_some(world)
    }

    /// The MPI library's name and version.
    pub(crate) fn library(&self) -> String {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: at most `text.len()` bytes are written, the last of them zero.
        unsafe { (self.library)(text.as_mut_ptr(), text.len() as i32) };
        // SAFETY: `text` ends with a zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        // Open MPI goes on after a comma, MPICH in the next line; MPICH separates by tabs.
        let line = text.lines().next().and_then(|line| line.split(',').next()).unwrap_or_default();
        line.replace("Version:", "").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Starts to send; nothing if it is done already.
    ///
    /// # Safety
    /// `length` bytes at `from` must stay readable and unchanged until the request is done.
    pub(crate) unsafe fn isend(&self, from: *const u8, length: usize, to: u32, tag: i32) -> Option<Request> {
        debug_assert!(i32::try_from(length).is_ok());
        // SAFETY: the caller's promise is what MPI asks for.
        let handle = unsafe { (self.isend)(from.cast(), length as u64, to as i32, tag) };
        (handle != NONE).then_some(Request(handle))
    }

    /// Starts to receive from a rank, or from whoever comes first.
    ///
    /// # Safety
    /// `room` bytes at `into` must stay valid and untouched by others until the request is done.
    pub(crate) unsafe fn irecv(&self, into: NonNull<u8>, room: usize, from: Option<u32>, tag: i32) -> Request {
        debug_assert!(i32::try_from(room).is_ok());
        let from = from.map_or(ANYBODY, |rank| rank as i32);
        // SAFETY: the caller's promise is what MPI asks for.
        Request(unsafe { (self.irecv)(into.as_ptr().cast(), room as u64, from, tag) })
    }

    /// Starts a barrier of all ranks.
    pub(crate) fn ibarrier(&self) -> Request {
        // SAFETY: it takes nothing.
        Request(unsafe { (self.ibarrier)() })
    }

    /// Whether a request is done. If so it must not be used again.
    #[inline]
    pub(crate) fn test(&self, request: &Request) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        // SAFETY: a `Request` holds a handle that the shim gave out, and `Outcome` is `struct outcome`.
        (unsafe { (self.test)(request.0, &mut outcome) } != 0).then_some(outcome)
    }

    /// The index of one request that is done, if any is. It must not be used again.
    #[inline]
    pub(crate) fn test_any(&self, requests: &[Request]) -> Option<usize> {
        if requests.is_empty() {
            return None;
        }
        // SAFETY: `Request` is an `i32`; all are handles that the shim gave out, and no more than it has room for.
        let index = unsafe { (self.test_any)(requests.as_ptr().cast(), requests.len() as i32) };
        (index != NONE).then_some(index as usize)
    }

    /// Gives up a receive that nothing has matched. It is done only when a test says so.
    pub(crate) fn cancel(&self, request: &Request) {
        // SAFETY: a `Request` holds a handle that the shim gave out.
        unsafe { (self.cancel)(request.0) }
    }

    /// Leaves MPI. Nothing else may be called afterwards.
    pub(crate) fn end(&self) {
        // SAFETY: it takes nothing.
        unsafe { (self.end)() }
    }

    /// What ends all ranks, this one included.
    pub(crate) fn aborter(&self) -> Aborter {
        Aborter(self.abort)
    }
}
