//! Virtual time of programs.

use std::time::Duration;

use treepie::Network;
use treepie::prelude::*;
use treepie::simulate::{Handshake, LogGP, Noise, Options, Settings, SharedMemoryCosts};

use crate::termination::dying;
use crate::{MACHINE, flat, ok, plain, simulate, simulate_with};

#[test]
fn a_message_takes_what_the_model_says() {
    let simulated = simulate(&flat(2), &plain(), |world| {
        if world.rank() == 0 { world.send(&[0u8; 101], 1, 0) } else { world.recv_vec::<u8>(0, 0).map(drop) }
    });
    let simulated = simulated.expect("it runs");
    // o + L + 100 G + o; the sender is free after o.
    assert_eq!((simulated.messages, simulated.bytes), (1, 101));
    assert_eq!(simulated.end_times, [2_000_000, 15_000_000]);
}

#[test]
fn ranks_of_a_host_share_its_port_and_its_memory() {
    let hosts: Network = "flat:4,ppn=2".parse().expect("a network");
    let end_times = |to: [usize; 4]| {
        let shared_memory = SharedMemoryCosts { latency: 1.5, bandwidth: 50.0 };
        let settings = Settings { shared_memory, ..plain() };
        let simulated = simulate(&hosts, &settings, |world| {
            let to = to[world.rank()];
            if to > 0 { world.send(&[0u8; 101], to, 0) } else { world.recv_vec::<u8>(ANY_SOURCE, 0).map(drop) }
        });
        let simulated = simulated.expect("it runs");
        let times = simulated.end_times.clone();
        ok(simulated);
        times
    };
    // The second message leaves g + 100 G after the first: 4 us later.
    assert_eq!(end_times([2, 3, 0, 0]), [2_000_000, 2_000_000, 15_000_000, 19_000_000]);
    // o + 1.5 us + 100 bytes of 50 each us + o.
    assert_eq!(end_times([1, 0, 3, 0]), [2_000_000, 7_500_000, 2_000_000, 7_500_000]);
}

#[test]
fn a_long_message_is_one_transfer_after_a_handshake() {
    let bytes = 1_000_000;
    let data = |i: usize| (i % 251) as u8;
    let simulated = simulate(&flat(2), &plain(), |world| {
        if world.rank() == 0 {
            let sent: Vec<u8> = (0..bytes).map(data).collect();
            return world.send(&sent, 1, 0).is_ok();
        }
        world.recv_vec::<u8>(0, 0).is_ok_and(|(got, _)| got.len() == bytes && (0..bytes).all(|i| got[i] == data(i)))
    });
    let simulated = simulated.expect("it runs");
    // RTS, CTS, data.
    assert_eq!(simulated.messages, 3);
    assert!(simulated.bytes < bytes as u64 + 100);
    assert!((10_000.0..10_100.0).contains(&simulated.micros()), "{}", simulated.micros());
    assert_eq!(simulated.into_results(), [true, true]);
}

#[test]
fn synchronous_sends_complete_after_the_handshake() {
    let times = |handshake| {
        let settings = Settings { handshake, ..plain() };
        let simulated = simulate(&flat(2), &settings, |world| {
            if world.rank() == 0 { world.ssend(&[0u8; 101], 1, 0) } else { world.recv_vec::<u8>(0, 0).map(drop) }
        });
        let simulated = simulated.expect("it runs");
        let result = (simulated.messages, simulated.end_times[0]);
        ok(simulated);
        result
    };
    // An acknowledgement of o + L + o; or the extra latency of a synchronous send.
    assert_eq!(times(Handshake::AckMessage), (2, 29_000_000));
    assert_eq!(times(Handshake::Latency { latency: 12.5, below: f64::INFINITY }), (1, 17_500_000));
    // The message has 101 bytes.
    assert_eq!(times(Handshake::Latency { latency: 12.5, below: 102.0 }), (1, 17_500_000));
    assert_eq!(times(Handshake::Latency { latency: 12.5, below: 101.0 }), (1, 15_000_000));
    assert_eq!(times(Handshake::Free), (1, 15_000_000));
}

#[test]
fn work_has_its_cost() {
    let time = |work: f64, messages: u64| {
        let settings = Settings { work_unit_time: work, ..plain() };
        let simulated = simulate(&flat(2), &settings, |world| {
            world.account_work(10);
            let mut build = ActiveMessages::<u64>::builder(&world);
            let port = build.port::<u64>("add");
            build.on(port, |sum, _, value| *sum += value);
            let mut am = build.start()?;
            let mut sum = 0;
            am.epoch_for(&mut sum, 0..messages, |cx, _, value| cx.send(port, 1 - world.rank(), value))?;
            Ok(sum)
        });
        let simulated = simulated.expect("it runs");
        let micros = simulated.micros();
        assert!(ok(simulated).iter().all(|sum| *sum == messages * (messages.max(1) - 1) / 2));
        micros
    };
    // Work without messages, and each message twice: where it is sent and where it is handled.
    assert!((time(1.0, 0) - time(0.0, 0) - 10.0).abs() < 0.5);
    let [free, priced] = [time(0.0, 100), time(1.0, 100)];
    assert!((priced - free - 210.0).abs() < 25.0, "{free} {priced}");
}

#[test]
fn computation_and_reduction_have_their_costs() {
    let time = |settings: &Settings, micros: u64| {
        let run = |world: Comm| {
            world.compute(Duration::from_micros(micros));
            // Where combining costs something, another algorithm may be chosen.
            world
                .with_algorithm("allreduce/recursive_doubling")?
                .allreduce(&[world.rank() as u64; 1000], Sum)
                .map(|sum| (sum[0], world.now()))
        };
        let simulated = simulate(&flat(2), settings, run).expect("it runs");
        let micros = simulated.micros();
        let results = ok(simulated);
        let last = results.iter().map(|(_, now)| now.as_nanos() as f64 / 1000.0).fold(0.0, f64::max);
        assert!(results.iter().all(|(sum, _)| *sum == 1) && last == micros, "{last} {micros} {results:?}");
        micros
    };
    let bare = time(&plain(), 0);
    assert!((time(&plain(), 70) - bare - 70.0).abs() < 1e-9);
    // Two ranks exchange all and combine all of it.
    let combined = time(&Settings { gamma: 0.01, ..plain() }, 0) - bare;
    assert!((combined - 80.0).abs() < 1e-9, "{combined}");
    let slow = Settings { noise: Noise { slow_ranks: vec![(1, 3.0)], ..Noise::default() }, ..plain() };
    assert!(time(&slow, 100) > 300.0);
}

#[test]
fn unsuccessful_polls_cost_time_and_stall_no_rank() {
    let polls = |poll| {
        let run = |world: Comm| {
            if world.rank() == 0 {
                // It sends only after many polls.
                world.compute(Duration::from_micros(1000));
                return world.send(&[1u8], 1, 0).map(|()| [0; 3]);
            }
            let (mut probes, mut tests, mut turns) = (0, 0, 0);
            while world.now() < Duration::from_micros(300) {
                probes += u32::from(world.iprobe(0, 0)?.is_none());
            }
            while world.now() < Duration::from_micros(600) {
                turns += u32::from(!world.progress());
            }
            let mut request = world.irecv_vec::<u8>(0, 0)?;
            while request.test().is_none() {
                tests += 1;
            }
            Ok([probes, turns, tests])
        };
        let options = Options { poll_cost: poll, ..Options::default() };
        ok(simulate_with(&flat(2), &plain(), &options, run).expect("it runs")).swap_remove(1)
    };
    let within = |count: u32, about: u32| count.abs_diff(about) <= 5;
    let [probes, turns, tests] = polls(1.0);
    assert!(within(probes, 300) && within(turns, 300) && within(tests, 412), "{probes} {turns} {tests}");
    let [probes, turns, tests] = polls(0.5);
    assert!(within(probes, 600) && within(turns, 600) && within(tests, 824), "{probes} {turns} {tests}");
    let nothing = Options { poll_cost: 0.0, ..Options::default() };
    let refused = simulate_with(&flat(2), &plain(), &nothing, |_| ()).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "the cost of a poll must be at least a picosecond, and is 0");
}

#[test]
fn a_hardware_barrier_takes_its_time_and_no_messages() {
    let settings = Settings { barrier_time: 1.5, ..plain() };
    let run = |world: Comm| {
        world.compute(Duration::from_micros(world.rank() as u64));
        world.barrier()?;
        let mut second = world.ibarrier()?;
        while second.test().is_none() {}
        // The barrier combines the flags.
        let answers = [world.any(world.rank() == 7)?, world.any(false)?];
        assert_eq!(answers, [true, false]);
        Ok(())
    };
    let simulated = simulate(&flat(100), &settings, run).expect("it runs");
    assert_eq!((simulated.messages, simulated.micros()), (0, 99.0 + 6.0));
    ok(simulated);
}

#[test]
fn bad_settings_are_refused_in_one_line() {
    let refusal =
        |network: &Network, settings: Settings| simulate(network, &settings, |_| ()).map(drop).unwrap_err().to_string();
    let negative = LogGP { latency: -1.0, ..MACHINE };
    assert_eq!(refusal(&flat(2), negative.into()), "L must be a non-negative number, and is -1");
    assert_eq!(refusal(&flat(2), dying(5, 1.0)), "rank 5 does not exist: there are 2 ranks");
    for stack in [0, (64 << 10) - 1, (1 << 30) + 1, 1 << 46] {
        let options = Options { stack_size: stack, ..Options::default() };
        let error = simulate_with(&flat(8), &plain(), &options, |_| ()).map(drop).unwrap_err().to_string();
        assert_eq!(error, format!("the stack size of a rank must be from 65536 to 1073741824 bytes, and is {stack}"));
    }
    let limit = Options { time_limit: Some(-1.0), ..Options::default() };
    let error = simulate_with(&flat(8), &plain(), &limit, |_| ()).map(drop).unwrap_err().to_string();
    assert_eq!(error, "the virtual time limit must be a non-negative number, and is -1");
}

#[test]
fn a_virtual_time_limit_ends_the_simulation() {
    let run = |limit, program: fn(&Comm) -> treepie::Result<()>| {
        let options = Options { time_limit: Some(limit), ..Options::default() };
        simulate_with(&flat(3), &plain(), &options, |world| program(&world)).map(|simulated| simulated.micros())
    };
    let program = |world: &Comm| match world.rank() {
        0 => world.recv_vec::<u8>(2, 7).map(drop),
        1 => loop {
            let _ = world.iprobe(0, 0)?;
        },
        _ => loop {
            world.compute(Duration::from_micros(30));
        },
    };
    let text = run(500.0, program).unwrap_err().to_string();
    assert_eq!(
        text,
        "3 of 3 ranks have not finished by 500 us, the virtual time limit: \
         rank 0 in recv from rank 2, tag 7, context 0; rank 1; rank 2"
    );
    let program = |world: &Comm| {
        world.compute(Duration::from_micros(10 * world.rank() as u64));
        Ok(())
    };
    assert_eq!(run(20.0, program), Ok(20.0));
    assert!(run(19.9, program).unwrap_err().to_string().contains("1 of 3 ranks have not finished by 19.9 us"));
    let endless = |world: &Comm| {
        world.compute(Duration::MAX);
        world.barrier()
    };
    let text = simulate(&flat(2), &plain(), |world| endless(&world)).map(drop).unwrap_err().to_string();
    assert!(text.starts_with("the simulation exceeds"), "{text}");
}

/// A root asks for all long blocks of a gather at once, so that the links between clusters carry them side by side.
#[test]
fn a_gather_of_long_blocks_fills_all_links() {
    const BYTES: usize = 1 << 20;
    let network: Network = "clusters:4x1".parse().unwrap();
    let settings = Settings::for_network(&network).unwrap();
    let result = simulate(&network, &settings, |world| {
        let comm = world.with_algorithm("gather/flat:segments=1").unwrap();
        let mut all = vec![0_u8; if comm.rank() == 0 { 4 * BYTES } else { 0 }];
        comm.gather(&vec![comm.rank() as u8; BYTES], &mut all, 0).unwrap();
        assert!(all.chunks(BYTES).enumerate().all(|(rank, block)| block.iter().all(|byte| *byte == rank as u8)));
        (comm.now()).as_secs_f64()
    });
    // 1 MB/s and 10 ms; one after the other they take three times as long.
    let time = result.unwrap().into_results()[0];
    assert!((1.05..1.3).contains(&time), "{time} s");
}
