//! Starting a world: [`init`] joins the one of the launcher, [`launch`] runs ranks as threads.

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

use treepie_base::{Error, Result, all_ok, environment as variables, report};
use treepie_comm::Comm;
use treepie_emulation::Emulation;
use treepie_fabric::{Fabric, Singleton};
use treepie_shm::{Arena, Shm};

use crate::{emulation, environment};

/// Why `init` fails where the ranks are not processes.
const NEEDS_MAIN: &str = "treepie::init makes this process one rank: --threads and --sim (TREEPIE_ENGINE) are for programs that call treepie::main";

/// Joins the world of this process: that of `treepie run`, `mpirun` or `srun`, or else a world of one rank. Call it
/// once, at the start; the world is finalized when its last handle is dropped, also if that is because the program
/// returns an error: with [`main`](crate::main), peers learn of that at once. Environment variables with invalid values
/// are an error.
pub fn init() -> Result<Comm> {
    if environment::requested_engine()?.is_some() {
        return Err(Error::Engine(NEEDS_MAIN.to_owned()));
    }
    environment::check(None)?;
    let world = join()?;
    environment::check(Some(world.size() as u32))?;
    if world.rank() == 0 {
        environment::warn();
    }
    configured(world)
}

/// The world itself, or a handle that chooses as the environment says: by what is measured now, or by what links take
/// while the program runs. Collective.
fn configured(world: Comm) -> Result<Comm> {
    adapting(with_measured_profile(world)?)
}

/// The world itself, or an adaptive handle, if `TREEPIE_ADAPT` is set. Collective.
pub(crate) fn adapting(world: Comm) -> Result<Comm> {
    if variables::adapt()? && world.size() > 1 { world.adaptive() } else { Ok(world) }
}

/// Measures the links between clusters again, and returns a handle that chooses by them: adaptive, if that of `comm`
/// is. Collective: all ranks call it, and do nothing else meanwhile. [`Comm::adaptive`] finds by normal traffic that
/// links have changed, but not on links that its choices avoid.
///
/// ```
/// treepie::launch_emulated("clusters:2x1,wan=1ms/10MBps,slow:0-1=4@0s", |world| {
///     assert_eq!(world.profile().level(1).factors(0, 1), (1.0, 1.0));
///     let world = treepie::measure_again(&world)?;
///     assert!(world.profile().level(1).factors(0, 1).1 > 2.0);
///     world.barrier()
/// })?;
/// # treepie::Result::Ok(())
/// ```
pub fn measure_again(comm: &Comm) -> Result<Comm> {
    let now = comm.adapted();
    let profile = treepie_tune::measure_links(&now, now.profile())?;
    let measured = now.with_profile(Rc::new(profile));
    if comm.is_adaptive() { measured.adaptive() } else { Ok(measured) }
}

/// The world itself, or a handle that chooses by what was measured, if `TREEPIE_PROFILE` is `measure`. Collective.
fn with_measured_profile(world: Comm) -> Result<Comm> {
    let value = variables::text(variables::PROFILE)?;
    if value.as_deref() != Some(variables::MEASURE) || world.size() < 2 {
        return Ok(world);
    }
    let profile = treepie_tune::refine(&world, world.profile())?;
    Ok(world.with_profile(Rc::new(profile)))
}

fn join() -> Result<Comm> {
    // Errors that a process prints name its rank.
    if let Some(shm) = treepie_shm::join_launched().map_err(|e| Error::Engine(e.to_string()))? {
        report::set_process_rank(shm.rank() as usize);
        return emulation::world_of(shm, emulation::requested()?.as_ref());
    }
    if treepie_mpi::running_under_mpi().is_some() {
        emulation::refuse_on("MPI")?;
        let fabric = treepie_mpi::start()?;
        report::set_process_rank(fabric.rank() as usize);
        return Ok(Comm::world(fabric));
    }
    emulation::refuse_on("a world of one rank")?;
    Ok(Comm::world(Box::new(Singleton::new())))
}

/// Runs a rank's function and finalizes the rank when it has returned or panicked: a handle that the function leaked,
/// or stored where it is dropped late, does not block the peers. A rank whose function returns an error has failed.
pub(crate) fn run_rank<T>(world: Comm, body: impl FnOnce(Comm) -> Result<T>) -> Result<T> {
    let finalizer = world.finalizer();
    let result = body(world);
    if let Err(error) = &result {
        finalizer.fail(error);
    }
    result
}

/// Runs `body` on `ranks` ranks that are threads of this process, each with a handle of the world, and returns their
/// values by rank. A rank leaves the world when `body` returns, whatever becomes of its handles.
///
/// If a rank returns an error or panics, the others get [`Error::PeerLost`] where they wait for it. When all have
/// ended, the panic resumes here, or the error is returned with its rank ([`Error::Rank`]): that of the first rank that
/// did not fail in consequence of another. A program that wants each rank's own result returns it as a value,
/// `Ok(operation())`.
///
/// ```
/// let sums = treepie::launch(3, |world| {
///     let next = (world.rank() + 1) % 3;
///     world.send_one(world.rank(), next, 0)?;
///     let (got, _) = world.recv_one::<usize>(treepie::ANY_SOURCE, 0)?;
///     Ok(got + world.rank())
/// })?;
/// assert_eq!(sums, [2, 1, 3]);
///
/// let failed = treepie::launch(3, |world| match world.rank() {
///     1 => Err("no data".into()),
///     _ => world.barrier(),
/// });
/// assert_eq!(failed.unwrap_err().to_string(), "rank 1: no data");
/// # treepie::Result::Ok(())
/// ```
pub fn launch<T: Send>(ranks: usize, body: impl Fn(Comm) -> Result<T> + Sync) -> Result<Vec<T>> {
    let size = world_size(ranks)?;
    environment::check(Some(size))?;
    launch_on(size, emulation::requested()?, body)
}

/// As [`launch`], with emulated wide-area links between the ranks: clusters and links are described as
/// `clusters:4x2,wan=10ms/1MBps,lan=20us/50MBps`. Messages take as long as they would there.
///
/// ```
/// // Two clusters of one rank, a millisecond apart.
/// let times = treepie::launch_emulated("clusters:2x1,wan=1ms/10MBps", |world| {
///     let (start, other) = (std::time::Instant::now(), 1 - world.rank());
///     if world.rank() == 0 {
///         world.send_one(7, other, 0)?;
///     }
///     let (value, _) = world.recv_one::<i32>(other, 0)?;
///     if world.rank() == 1 {
///         world.send_one(value, other, 0)?;
///     }
///     Ok(start.elapsed())
/// })?;
/// assert!(times[0].as_micros() >= 2000);
/// # treepie::Result::Ok(())
/// ```
pub fn launch_emulated<T: Send>(links: &str, body: impl Fn(Comm) -> Result<T> + Sync) -> Result<Vec<T>> {
    let emulation: Emulation = links.parse().map_err(|refusal| Error::Engine(format!("{links}: {refusal}")))?;
    let size = emulation.network().ranks();
    environment::check_all_but_links(Some(size))?;
    launch_on(size, Some(emulation), body)
}

fn world_size(ranks: usize) -> Result<u32> {
    let size = u32::try_from(ranks).ok().filter(|size| *size > 0);
    size.ok_or_else(|| Error::Engine(format!("a world cannot have {ranks} ranks")))
}

fn launch_on<T: Send>(
    size: u32,
    emulation: Option<Emulation>,
    body: impl Fn(Comm) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    environment::warn();
    let arena = Arena::create(size).map_err(|e| Error::Engine(format!("no shared memory for {size} ranks: {e}")))?;
    let (arena, body, emulation) = (Arc::new(arena), &body, emulation.as_ref());
    std::thread::scope(|threads| {
        let mut running = Vec::with_capacity(size as usize);
        for rank in 0..size {
            let joined = arena.clone();
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            let spawned = thread.spawn_scoped(threads, move || {
                let engine = Shm::join(joined, rank).expect("each rank of a new world is joined once");
                report::with_thread_rank(rank as usize, || {
                    let world = emulation::world_of(engine, emulation)?;
                    run_rank(world, |world| body(configured(world)?))
                })
            });
            match spawned {
                Ok(thread) => running.push(thread),
                Err(e) => {
                    // Running ranks must not wait for ranks that were never started.
                    (rank..size).for_each(|rank| arena.report(rank, treepie_fabric::Liveness::Failed));
                    return Err(Error::Engine(format!("rank {rank} of {size} cannot be started as a thread: {e}")));
                }
            }
        }
        // All of them, before the first panic resumes.
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        all_ok(ended.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))))
    })
}
