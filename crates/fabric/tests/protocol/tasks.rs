//! Tasks that panic: an operator is the program's, and what it does must not break the endpoint.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use treepie_base::{Error, Result, lending};
use treepie_fabric::{Endpoint, Id, Target, Task};

use crate::{PLAIN, bytes, from, pair, to};

/// Waits for a message, and then ends or panics.
struct Waits {
    receive: Option<Id>,
    panics: bool,
    given_up: Rc<Cell<bool>>,
}

impl Task for Waits {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let receive = *self.receive.get_or_insert_with(|| endpoint.start_recv(from(0), Target::Into(bytes(3))));
        let result = endpoint.result_envelope(receive)?;
        assert!(!self.panics, "this task panics");
        Some(result.map(drop))
    }

    fn give_up(&mut self, _: &mut Endpoint) {
        self.given_up.set(true);
    }
}

fn spawn(end: &mut Endpoint, panics: bool) -> (Id, Rc<Cell<bool>>) {
    let given_up = Rc::new(Cell::new(false));
    let task = Waits { receive: None, panics, given_up: given_up.clone() };
    (end.spawn(Rc::new(RefCell::new(task)), None), given_up)
}

fn progress(end: &mut Endpoint) {
    for _ in 0..1000 {
        end.progress();
    }
}

fn panics(what: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(what)).is_err()
}

#[test]
fn a_task_that_panics_leaves_the_endpoint_and_other_tasks_whole() {
    let (mut a, mut b) = pair(PLAIN);
    let tasks = [false, true, false, false].map(|panics| spawn(&mut b, panics));
    for _ in &tasks {
        a.send(to(1, false), b"abc").unwrap();
    }
    assert!(panics(|| progress(&mut b)), "the panic goes on in whoever made progress");
    assert!(!panics(|| progress(&mut b)), "once");
    assert_eq!(b.result(tasks[1].0).expect("over").unwrap_err(), Error::Cancelled);
    assert!(tasks[1].1.get(), "what it has begun was not given up");
    assert!(!tasks[0].1.get());
    // Others step only when something has come.
    a.send(to(1, false), b"abc").unwrap();
    progress(&mut b);
    for place in [0, 2, 3] {
        assert!(b.result(tasks[place].0).expect("over").is_ok(), "task {place}");
    }
    assert_eq!(b.recv(from(0), &mut [0; 3]).unwrap().bytes, 3);
    // What is begun now is not taken for a task's.
    let (mut memory, b) = ([0; 3], RefCell::new(b));
    let seen = lending(
        |lending, _| {
            let id = b.borrow_mut().start_recv(from(0), Target::Into(lending.lend_mut(&mut memory)));
            let seen = b.borrow().lent_by(lending.lender()) == [id];
            b.borrow_mut().cancel(id) && seen
        },
        |panicked| b.borrow_mut().settle(panicked),
    );
    assert!(seen, "an operation of the caller is taken for a task's");
}

#[test]
fn a_task_that_panics_at_once_was_never_there() {
    let (mut a, mut b) = pair(PLAIN);
    a.send(to(1, false), b"abc").unwrap();
    while b.iprobe(from(0)).unwrap().is_none() {}
    assert!(panics(|| drop(spawn(&mut b, true))));
    let (id, _) = spawn(&mut b, false);
    a.send(to(1, false), b"abc").unwrap();
    assert!(b.wait(id).is_ok());
}
