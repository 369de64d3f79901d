//! Particles that move between ranks: destinations change in each step, and no rank knows who will send to it.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/particles       four processes on this machine
//! mpirun -n 4 target/release/examples/particles            the same under MPI
//! target/release/examples/particles                        alone: a world of one
//! TREEPIE_ALGORITHM=exchange/nbx, exchange/pex, ...        with this protocol instead of automatic selection
//! ```

use bytemuck::{Pod, Zeroable};
use treepie::prelude::*;

/// A particle on a ring of length 1. Rank r has those from r/P to (r+1)/P.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Particle {
    id: u64,
    at: f64,
    speed: f64,
}

const PARTICLES: u64 = 1000;
const STEPS: usize = 50;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());
        let owner = |at: f64| ((at * size as f64) as usize).min(size - 1);

        let position = |id: u64| id as f64 / PARTICLES as f64;
        let all = (0..PARTICLES).map(|id| Particle { id, at: position(id), speed: (id % 17) as f64 / 170.0 - 0.05 });
        let mut local: Vec<Particle> = all.filter(|particle| owner(particle.at) == me).collect();

        let mut moved = 0;
        for _ in 0..STEPS {
            // 1. The particles that leave this rank, by destination.
            let mut leaving: Vec<Vec<Particle>> = vec![Vec::new(); size];
            for mut particle in std::mem::take(&mut local) {
                particle.at = (particle.at + particle.speed).rem_euclid(1.0);
                let to = owner(particle.at);
                if to == me { local.push(particle) } else { leaving[to].push(particle) }
            }
            let messages = leaving.into_iter().enumerate().filter(|(_, particles)| !particles.is_empty());

            // 2. A sparse exchange. It is collective: ranks with nothing to send call it too.
            for (_, particles) in world.exchange(messages)? {
                moved += particles.len();
                local.extend(particles);
            }
            assert!(local.iter().all(|particle| owner(particle.at) == me), "a particle arrived at the wrong rank");
        }

        // 3. No particle was lost or duplicated.
        let ids: u64 = local.iter().map(|particle| particle.id).sum();
        let sums = world.allreduce(&[local.len() as u64, ids, moved as u64], Sum)?;
        assert_eq!(sums[..2], [PARTICLES, PARTICLES * (PARTICLES - 1) / 2], "particles were lost");
        println!("rank {me}: {} particles are here now, {moved} came in {STEPS} steps", local.len());
        if me == 0 {
            println!("rank 0: all {PARTICLES} particles are there, after {} moves", sums[2]);
        }
        Ok(())
    })
}
