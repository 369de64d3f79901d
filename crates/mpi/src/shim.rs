//! The functions of `shim.c`, loaded from a shared object at run time.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::SetupError;
use crate::cache::CachedShim;

/// The C file, compiled by the user's `mpicc`.
pub(crate) const SOURCE: &str = include_str!("shim.c");

const INTERFACE_VERSION: i32 = 4;
const NULL_REQUEST: i32 = -1;
const ANY_SOURCE: i32 = -1;

/// A request in flight, until a test reports its completion.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct MpiRequest(i32);

/// Facts about the world from MPI; `struct world` in the C file.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct WorldInfo {
    pub(crate) rank: i32,
    pub(crate) size: i32,
    pub(crate) tag_ub: i32,
    pub(crate) node_ranks: i32,
    pub(crate) node_cpus: i32,
    pub(crate) node_first: i32,
}

impl WorldInfo {
    /// Whether the ranks of this host have a core each.
    pub(crate) fn has_dedicated_cores(&self) -> bool {
        self.node_ranks <= self.node_cpus
    }

    /// Ranks of this host for each of its cores, rounded up.
    pub(crate) fn ranks_per_core(&self) -> u32 {
        (self.node_ranks.max(1) as u32).div_ceil(self.node_cpus.max(1) as u32)
    }
}

/// Source and length of a received message; `struct outcome` in the C file.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MpiStatus {
    pub(crate) source: i32,
    pub(crate) length: i32,
}

/// A collective operation; `struct collective` in the C file.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CollectiveInfo {
    pub(crate) operation: i32,
    /// The type of its elements, or 0 for bytes.
    pub(crate) element: i32,
    /// How they are reduced, or 0.
    pub(crate) op: i32,
    pub(crate) count: i32,
    pub(crate) root: i32,
    pub(crate) in_place: i32,
}

/// The loaded shim. MPI is used by one thread, so this is not `Send`.
pub(crate) struct Shim {
    init: unsafe extern "C" fn(*mut WorldInfo) -> i32,
    allgather: unsafe extern "C" fn(*const c_void, i32, *mut c_void),
    library_version: unsafe extern "C" fn(*mut c_char, i32),
    isend: unsafe extern "C" fn(*const c_void, u64, i32, i32) -> i32,
    irecv: unsafe extern "C" fn(*mut c_void, u64, i32, i32) -> i32,
    ibarrier: unsafe extern "C" fn() -> i32,
    icollective: unsafe extern "C" fn(*const CollectiveInfo, *const c_void, *mut c_void) -> i32,
    test: unsafe extern "C" fn(i32, *mut MpiStatus) -> i32,
    test_any: unsafe extern "C" fn(*const i32, i32) -> i32,
    cancel: unsafe extern "C" fn(i32),
    finalize: unsafe extern "C" fn(),
    abort: unsafe extern "C" fn(i32),
    not_send: PhantomData<*const ()>,
}

/// Aborts the job, from any thread: MPI allows that at any time, as the process ends.
#[derive(Clone, Copy)]
pub(crate) struct AbortHandle(unsafe extern "C" fn(i32));

impl AbortHandle {
    pub(crate) fn abort(self, code: i32) -> ! {
        // SAFETY: any code is valid, and the shim is never unloaded.
        unsafe { (self.0)(code) };
        unreachable!("the shim ends the process")
    }
}

impl Shim {
    /// Loads a compiled shim, and with it its MPI, for the rest of the process.
    pub(crate) fn load(cached: CachedShim) -> Result<Self, SetupError> {
        let path = cached.path();
        let failed = |error: libloading::Error| SetupError::load(path, error);
        // Open MPI opens plugins that expect its symbols to be visible: hence global.
        // SAFETY: loading runs the initializers of the shim, which has none, since `CachedShim` is what this user had
        // compiled, and of the user's MPI, which is trusted.
        let library = unsafe { Library::open(Some(cached.fd_path()), RTLD_NOW | RTLD_GLOBAL) }.map_err(failed)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type of the field is that of the function in `shim.c`; the interface version below shows
                // that it was that file.
                *unsafe { library.get(concat!("treepie_mpi_", $name).as_bytes()) }.map_err(failed)?
            };
        }
        let interface: unsafe extern "C" fn() -> i32 = function!("interface");
        // SAFETY: it returns a constant.
        if unsafe { interface() } != INTERFACE_VERSION {
            return Err(SetupError::load(path, "it belongs to another version of Treepie"));
        }
        let shim = Self {
            init: function!("begin"),
            allgather: function!("allgather"),
            library_version: function!("library"),
            isend: function!("isend"),
            irecv: function!("irecv"),
            ibarrier: function!("ibarrier"),
            icollective: function!("icollective"),
            test: function!("test"),
            test_any: function!("test_any"),
            cancel: function!("cancel"),
            finalize: function!("end"),
            abort: function!("abort"),
            not_send: PhantomData,
        };
        // MPI leaves exit handlers and threads behind, so it is never unloaded; `shim` relies on that.
        std::mem::forget(library);
        // The loader identifies libraries by their paths: the descriptor's number must not be reused.
        std::mem::forget(cached);
        Ok(shim)
    }

    /// Initializes MPI unless that has been done; none if it was already finalized in this process. Collective.
    pub(crate) fn init(&self) -> Option<WorldInfo> {
        let mut world = WorldInfo::default();
        // SAFETY: `WorldInfo` is `struct world`.
        (unsafe { (self.init)(&mut world) } == 0).then_some(world)
    }

    /// The lowest rank on the node of each rank; nothing if all are on one. Collective, after [`init`](Self::init).
    pub(crate) fn nodes(&self, world: &WorldInfo) -> Vec<u32> {
        if world.node_ranks >= world.size {
            return Vec::new();
        }
        self.allgather(world, [world.node_first as u64]).into_iter().map(|[rank]| rank as u32).collect()
    }

    /// The words of each rank of the world that [`init`](Self::init) has returned. Collective.
    pub(crate) fn allgather<const WORDS: usize>(&self, world: &WorldInfo, words: [u64; WORDS]) -> Vec<[u64; WORDS]> {
        let mut all = vec![[0; WORDS]; world.size as usize];
        // SAFETY: `all` has room for the words of each rank: only the shim makes a `WorldInfo` with ranks.
        unsafe { (self.allgather)(words.as_ptr().cast(), size_of_val(&words) as i32, all.as_mut_ptr().cast()) };
        all
    }

    /// The MPI library's name and version.
    pub(crate) fn library_version(&self) -> String {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: at most `text.len()` bytes are written, the last of them zero.
        unsafe { (self.library_version)(text.as_mut_ptr(), text.len() as i32) };
        // SAFETY: `text` ends with a zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        // Open MPI continues after a comma, MPICH in the next line; MPICH separates by tabs.
        let line = text.lines().next().and_then(|line| line.split(',').next()).unwrap_or_default();
        line.replace("Version:", "").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Starts a send; none if it completes at once.
    ///
    /// # Safety
    /// `length` bytes at `from` must stay readable and unchanged until the request is complete.
    pub(crate) unsafe fn isend(&self, from: *const u8, length: usize, to: u32, tag: i32) -> Option<MpiRequest> {
        debug_assert!(i32::try_from(length).is_ok());
        // SAFETY: the caller's promise is what MPI asks for.
        let handle = unsafe { (self.isend)(from.cast(), length as u64, to as i32, tag) };
        (handle != NULL_REQUEST).then_some(MpiRequest(handle))
    }

    /// Starts a receive from a rank, or from any.
    ///
    /// # Safety
    /// `capacity` bytes at `into` must stay valid and untouched by others until the request is complete.
    pub(crate) unsafe fn irecv(&self, into: NonNull<u8>, capacity: usize, from: Option<u32>, tag: i32) -> MpiRequest {
        debug_assert!(i32::try_from(capacity).is_ok());
        let from = from.map_or(ANY_SOURCE, |rank| rank as i32);
        // SAFETY: the caller's promise is what MPI asks for.
        MpiRequest(unsafe { (self.irecv)(into.as_ptr().cast(), capacity as u64, from, tag) })
    }

    /// Starts a nonblocking barrier of all ranks.
    pub(crate) fn ibarrier(&self) -> MpiRequest {
        // SAFETY: it takes nothing.
        MpiRequest(unsafe { (self.ibarrier)() })
    }

    /// Starts a collective operation of all ranks.
    ///
    /// # Safety
    /// The numbers must be those of the C file. The memory that the operation reads and writes on this rank must be
    /// there, stay valid, and be untouched by others until the request is complete.
    pub(crate) unsafe fn icollective(&self, what: &CollectiveInfo, from: *const u8, into: NonNull<u8>) -> MpiRequest {
        // SAFETY: the caller's promise is what MPI asks for.
        MpiRequest(unsafe { (self.icollective)(what, from.cast(), into.as_ptr().cast()) })
    }

    /// Tests a request. If it is complete it must not be used again.
    #[inline]
    pub(crate) fn test(&self, request: &MpiRequest) -> Option<MpiStatus> {
        let mut status = MpiStatus::default();
        // SAFETY: an `MpiRequest` holds a handle of the shim, and `MpiStatus` is `struct outcome`.
        (unsafe { (self.test)(request.0, &mut status) } != 0).then_some(status)
    }

    /// The index of a completed request, if any. It must not be used again.
    #[inline]
    pub(crate) fn test_any(&self, requests: &[MpiRequest]) -> Option<usize> {
        if requests.is_empty() {
            return None;
        }
        // SAFETY: `MpiRequest` is an `i32`; all are handles of the shim, and no more than it has space for.
        let index = unsafe { (self.test_any)(requests.as_ptr().cast(), requests.len() as i32) };
        (index != NULL_REQUEST).then_some(index as usize)
    }

    /// Cancels a receive. It is complete only when a test reports so.
    pub(crate) fn cancel(&self, request: &MpiRequest) {
        // SAFETY: an `MpiRequest` holds a handle of the shim.
        unsafe { (self.cancel)(request.0) }
    }

    /// Finalizes MPI. Nothing else may be called afterwards.
    pub(crate) fn finalize(&self) {
        // SAFETY: it takes nothing.
        unsafe { (self.finalize)() }
    }

    /// The handle that aborts the job, this rank included.
    pub(crate) fn abort_handle(&self) -> AbortHandle {
        AbortHandle(self.abort)
    }
}
