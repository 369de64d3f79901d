//! Choices follow links that become slower.

use treepie::{Comm, Operation, Result, launch_emulated};

#[test]
fn explore() {
    let links = std::env::var("LINKS").unwrap_or("clusters:4x1,wan=2ms/4MBps,lan=20us/200MBps,slow:0-2=4@2s".into());
    let bytes: usize = std::env::var("BYTES").ok().map_or(64 << 10, |b| b.parse().unwrap());
    launch_emulated(&links, |world| {
        let world = world.adaptive()?;
        let mut data = vec![0_u64; bytes / 8];
        let mut last = (u32::MAX, String::new());
        for call in 0..150 {
            if world.rank() == 0 {
                data.iter_mut().enumerate().for_each(|(i, x)| *x = (i + call) as u64);
            } else {
                data.fill(0);
            }
            let start = world.now();
            world.bcast(&mut data, 0)?;
            let took = world.now() - start;
            assert!(data.iter().enumerate().all(|(i, x)| *x == (i + call) as u64));
            let id = world.chosen_algorithm(Operation::Bcast { root: 0 }, bytes, 8)?;
            let now = (world.generation(), id);
            if world.rank() == 0 && (now != last || call % 10 == 0) {
                println!("{:?} call {call}: {now:?} {took:?}", world.now());
            }
            last = now;
        }
        Ok(())
    })
    .unwrap();
}
