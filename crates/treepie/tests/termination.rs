//! Races around the end of a rank, on threads, many times.

use std::panic::{AssertUnwindSafe, catch_unwind};

use treepie::{ANY_SOURCE, Error, launch};

/// Messages sent before a rank left are received, however soon it left and whatever the receiver was doing.
#[test]
fn messages_sent_before_leaving_are_received() {
    for ranks in [2, 4, 9] {
        for _ in 0..100 {
            launch(ranks, |world| {
                if world.rank() != 0 {
                    // The first message of the pair, so the ring has yet to be announced.
                    return world.send(&[world.rank()], 0, 3);
                }
                let mut sources: Vec<usize> = Vec::new();
                for _ in 1..world.size() {
                    sources.push(world.recv_vec(ANY_SOURCE, 3)?.0[0]);
                }
                sources.sort_unstable();
                assert_eq!(sources, (1..world.size()).collect::<Vec<_>>());
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn a_leaked_request_does_not_keep_its_rank_from_leaving() {
    let results = launch(2, |world| {
        if world.rank() == 0 {
            std::mem::forget(world.irecv(vec![0u8; 8], 1, 0)?);
            return Ok(());
        }
        world.recv(&mut [0u8; 8], 0, 1).map(drop)
    });
    assert_eq!(results, Err(Error::Rank { rank: 1, error: Box::new(Error::PeerLost { rank: 0 }) }));
}

/// The sender panics while both ends copy: the receiver gets the message or PeerLost, and freed memory is not accessed.
#[test]
fn a_panic_in_the_middle_of_a_transfer() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for turn in 0..20u64 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            launch(2, |world| {
                if world.rank() == 0 {
                    let mut send = world.isend(vec![turn as u8 + 1; 24 << 20], 1, 0).unwrap();
                    for _ in 0..turn * 40 {
                        if send.test().is_some() {
                            break;
                        }
                    }
                    panic!("the fault that this test is about");
                }
                match world.recv_vec::<u8>(0, 0) {
                    Ok((data, _)) => assert!(data.iter().all(|byte| *byte == turn as u8 + 1)),
                    Err(error) => assert_eq!(error, Error::PeerLost { rank: 0 }),
                }
                Ok(())
            })
        }));
        let panic = outcome.err().and_then(|panic| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        assert_eq!(panic.as_deref(), Some("the fault that this test is about"));
    }
    std::panic::set_hook(quiet);
}

/// Lengths are 64 bits wide. Needs 9 GiB, so only with `./test.sh --long`.
#[test]
fn a_message_beyond_four_gibibytes() {
    if std::env::var_os("TREEPIE_LONG").is_none() {
        eprintln!("SKIPPED: a message beyond 4 GiB, which ./test.sh --long sends");
        return;
    }
    let len = (4usize << 30) + 5;
    launch(2, |world| {
        if world.rank() == 0 {
            let mut data = vec![0u8; len];
            (data[0], data[len / 2], data[len - 1]) = (1, 2, 3);
            world.isend(data, 1, 0).unwrap().wait().unwrap();
        } else {
            let (data, status) = world.recv_vec::<u8>(0, 0).unwrap();
            assert_eq!((status.bytes, data.len()), (len as u64, len));
            assert_eq!((data[0], data[len / 2], data[len - 1]), (1, 2, 3));
        }
        Ok(())
    })
    .unwrap();
}
