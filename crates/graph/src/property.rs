//! Values of vertices, each with its owner, that all ranks read and change by messages.
//!
//! The values of own vertices lie in the state of the active messages. [`Changes`] puts or accumulates values at vertices that a
//! rank sees; [`Reads`] gets them, and goes on when they come.

use bytemuck::{Pod, Zeroable};
use treepie_am::{Builder, Call, Context, Port};

use crate::View;

/// A value for a vertex of the destination's.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
struct Change<T> {
    place: u32,
    value: T,
}

/// Changes of the values of vertices.
#[derive(Clone, Copy)]
pub struct Changes<T: Pod> {
    port: Port<Change<T>>,
}

impl<T: Pod> Changes<T> {
    /// Registers changes: `change` is called with the value of a vertex, where `values` says that those of own vertices are, and
    /// with what was sent.
    ///
    /// Where order does not matter (sums, least ones), `combine` changes may also be put together before they are sent.
    pub fn register<S>(
        build: &mut Builder<S>,
        name: &str,
        values: impl Fn(&mut S) -> &mut [T] + 'static,
        change: impl Fn(&mut T, T) + Copy + 'static,
        combines: bool,
    ) -> Self {
        let port = build.port::<Change<T>>(name);
        build.on(port, move |state, _, message| change(&mut values(state)[message.place as usize], message.value));
        if combines {
            build.combine(
                port,
                |message: &Change<T>| message.place.into(),
                move |into: &mut Change<T>, message| {
                    let mut value = into.value;
                    change(&mut value, message.value);
                    into.value = value;
                },
            );
        }
        Self { port }
    }

    /// Changes the value of the vertex at a place of the view.
    #[inline]
    pub fn send<S>(&self, cx: &mut Context<S>, view: &View, place: u32, value: T) {
        let (rank, place) = view.owner(place);
        cx.send(self.port, rank, Change { place, value });
    }
}

/// Questions for the values of vertices, each with a note for when the answer comes.
#[derive(Clone, Copy)]
pub struct Reads<T: Pod, N: Pod> {
    call: Call<u32, T, N>,
}

impl<T: Pod, N: Pod> Reads<T, N> {
    /// Registers questions: `then` is called with the note and the value.
    pub fn register<S>(
        build: &mut Builder<S>,
        name: &str,
        values: impl Fn(&mut S) -> &mut [T] + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, T) + 'static,
    ) -> Self {
        let call = build.call::<u32, T, N>(name);
        build.on_call(call, move |state, _, place: u32| values(state)[place as usize], then);
        Self { call }
    }

    /// Asks for the value of the vertex at a place of the view.
    #[inline]
    pub fn ask<S>(&self, cx: &mut Context<S>, view: &View, place: u32, note: N) {
        let (rank, place) = view.owner(place);
        cx.call(self.call, rank, note, place);
    }
}
