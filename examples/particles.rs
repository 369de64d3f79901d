//! Particles that move between ranks: a sparse exchange of structs, as no rank knows who will send to it.
//! The book shows this program beside one with mpi4py (docs/tasks.md).
//! `TREEPIE_ALGORITHM=exchange/pex` or another protocol replaces the automatic selection.

use treepie::prelude::*;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Particle {
    id: u64,
    at: f64,
    speed: f64,
}

const PARTICLES: u64 = 1000;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());
        let owner = |particle: &Particle| (particle.at * size as f64) as Rank % size;
        let new = |id: u64| Particle { id, at: id as f64 / PARTICLES as f64, speed: (id % 17) as f64 / 170.0 - 0.05 };
        let mut local: Vec<Particle> = (0..PARTICLES).map(new).filter(|particle| owner(particle) == me).collect();
        for _ in 0..50 {
            local.iter_mut().for_each(|particle| particle.at = (particle.at + particle.speed).rem_euclid(1.0));
            local = world.exchange_by_owner(local, owner)?;
        }
        let ids: u64 = local.iter().map(|particle| particle.id).sum();
        let sums = world.allreduce(&[local.len() as u64, ids], Sum)?;
        println!("rank {me}: {} particles", local.len());
        if me == 0 {
            println!("rank 0: all {} particles are there, the sum of their ids is {}", sums[0], sums[1]);
        }
        Ok(())
    })
}
