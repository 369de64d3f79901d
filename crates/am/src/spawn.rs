//! The remote-spawn form: a closure that runs where its data is.   [paper, listing 2]
//!
//! A closure without captures is a place in the program's code, which is the same in all processes that run the same
//! executable; what it would capture is plain data that goes along. A registered type costs 28 bytes a message less, and its
//! handler is compiled into the loop over the buffer.

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use treepie_base::{Code, Error, Rank};

use crate::context::Context;
use crate::handler::{Handler, whole};
use crate::parcel::each;

impl<S: 'static> Context<S> {
    /// Runs a closure on another rank, with data that goes there, before the epoch ends. The runtime must
    /// [allow it](crate::Builder::allow_spawn).
    ///
    /// ```
    /// # use treepie_am::Context;
    /// # struct State { colour: Vec<bool>, next: Vec<u32> }
    /// # fn visit(cx: &mut Context<State>, owner: usize, w: u32) {
    /// cx.spawn(owner, w, |state: &mut State, _, w| {
    ///     if !std::mem::replace(&mut state.colour[w as usize], true) {
    ///         state.next.push(w);
    ///     }
    /// });
    /// # }
    /// ```
    pub fn spawn<D: Pod>(&mut self, to: Rank, data: D, run: fn(&mut S, &mut Context<S>, D)) {
        let Some(index) = self.spawning else {
            let error = Error::Algorithm("spawn needs `Builder::allow_spawn` before the start".to_owned());
            self.fault.get_or_insert(error);
            return;
        };
        let mut bytes = [bytes_of(&Code::of(run)), bytes_of(&data)].concat();
        self.send_bytes(index, to, &mut bytes);
    }
}

/// What runs closures that came.
pub(crate) fn spawned<S: 'static>() -> Handler<S> {
    whole(|state, context, batch| {
        let mut count = 0;
        for (from, bytes) in each(batch) {
            count += 1;
            let ran = bytes
                .split_at_checked(size_of::<Code>())
                .is_some_and(|(code, data)| pod_read_unaligned::<Code>(code).run(state, context, data));
            if !ran {
                let error = format!("rank {from} spawned something that this executable does not have");
                context.fault.get_or_insert(Error::Algorithm(error));
            }
        }
        count
    })
}
