//! Tasks that panic: a user-defined operator may panic, which must not break the endpoint.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use treepie_base::{Error, Result, borrow_scope};
use treepie_fabric::{Endpoint, OpId, RecvTarget, Task};

use crate::{PLAIN, bytes, from, pair, to};

/// Waits for a message, and then completes or panics.
struct WaitForMessage {
    receive: Option<OpId>,
    panics: bool,
    aborted: Rc<Cell<bool>>,
}

impl Task for WaitForMessage {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let receive = *self.receive.get_or_insert_with(|| endpoint.irecv(from(0), RecvTarget::Into(bytes(3))));
        let result = endpoint.take_envelope(receive)?;
        assert!(!self.panics, "this task panics");
        Some(result.map(drop))
    }

    fn abort(&mut self, _: &mut Endpoint) {
        self.aborted.set(true);
    }
}

fn spawn(endpoint: &mut Endpoint, panics: bool) -> (OpId, Rc<Cell<bool>>) {
    let aborted = Rc::new(Cell::new(false));
    let task = WaitForMessage { receive: None, panics, aborted: aborted.clone() };
    (endpoint.spawn(Rc::new(RefCell::new(task)), None), aborted)
}

fn progress(endpoint: &mut Endpoint) {
    for _ in 0..1000 {
        endpoint.progress();
    }
}

fn panics(what: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(what)).is_err()
}

#[test]
fn a_panicking_task_leaves_the_endpoint_and_other_tasks_intact() {
    let (mut a, mut b) = pair(PLAIN);
    let tasks = [false, true, false, false].map(|panics| spawn(&mut b, panics));
    for _ in &tasks {
        a.send(to(1, false), b"abc").unwrap();
    }
    assert!(panics(|| progress(&mut b)), "the panic resumes in the caller of progress");
    assert!(!panics(|| progress(&mut b)), "once");
    assert_eq!(b.take_result(tasks[1].0).expect("completed").unwrap_err(), Error::Cancelled);
    assert!(tasks[1].1.get(), "the panicking task was not aborted");
    assert!(!tasks[0].1.get());
    // Other tasks are stepped at the next event.
    a.send(to(1, false), b"abc").unwrap();
    progress(&mut b);
    for index in [0, 2, 3] {
        assert!(b.take_result(tasks[index].0).expect("completed").is_ok(), "task {index}");
    }
    assert_eq!(b.recv(from(0), &mut [0; 3]).unwrap().bytes, 3);
    // An operation started now does not belong to a task.
    let (mut memory, b) = ([0; 3], RefCell::new(b));
    let is_listed = borrow_scope(
        |scope, _| {
            let id = b.borrow_mut().irecv(from(0), RecvTarget::Into(scope.lend_mut(&mut memory)));
            let is_listed = b.borrow().lent_by(scope.id()) == [id];
            b.borrow_mut().cancel(id) && is_listed
        },
        |panicked| b.borrow_mut().settle(panicked),
    );
    assert!(is_listed, "an operation of the caller is attributed to a task");
}

#[test]
fn a_task_that_panics_on_spawn_leaves_no_trace() {
    let (mut a, mut b) = pair(PLAIN);
    a.send(to(1, false), b"abc").unwrap();
    while b.iprobe(from(0)).unwrap().is_none() {}
    assert!(panics(|| drop(spawn(&mut b, true))));
    let (id, _) = spawn(&mut b, false);
    a.send(to(1, false), b"abc").unwrap();
    assert!(b.wait(id).is_ok());
}
