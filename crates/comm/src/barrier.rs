//! Barriers: nobody goes on before all have come.
//!
//! On a world whose engine has a counter that all ranks share, everybody adds to it. Otherwise by dissemination: in
//! round k each rank tells the one 2^k after it and waits for the one 2^k before it, so after ceil(log2 P) rounds each
//! has heard, directly or not, of all.

use treepie_base::{Bytes, Result, Span};
use treepie_fabric::{Address, Endpoint, Id, Select, Started, Target, Task};

use crate::comm::Comm;
use crate::request::{Finish, Request};

impl Comm {
    /// Waits until all ranks of the communicator have called it.
    pub fn barrier(&self) -> Result<()> {
        self.ibarrier()?.wait()
    }

    /// Begins a barrier; the request is done when all ranks of the communicator have begun it.
    pub fn ibarrier(&self) -> Result<Request<'static, ()>> {
        let count = self.inner.barriers.get();
        self.inner.barriers.set(count.wrapping_add(1));
        let id = self.begin_barrier(count);
        Ok(Request::new(self, id, Finish::Envelope(|_, _| Ok(()))))
    }

    fn begin_barrier(&self, count: u32) -> Id {
        let mut endpoint = self.endpoint();
        // Contexts are even and never used twice, so each communicator of all ranks has a counter of its own.
        let cell = self.context() / 2;
        if let Some(id) = endpoint.gather(cell) {
            return id;
        }
        let dissemination = Dissemination {
            context: self.own_context(),
            // Barriers of one communicator may overlap; thirty rounds are enough for a billion ranks.
            first_tag: (count % (1 << 20)) << 5,
            rank: self.rank() as u32,
            size: self.size() as u32,
            round: 0,
            heard: None,
        };
        endpoint.spawn(Box::new(dissemination))
    }
}

struct Dissemination {
    context: u32,
    first_tag: u32,
    rank: u32,
    size: u32,
    round: u32,
    heard: Option<Id>,
}

impl Task for Dissemination {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let nothing = || Span::from(Bytes::zeroed(0, 1));
        loop {
            if let Some(id) = self.heard {
                match endpoint.result(id)? {
                    Ok(_) => self.heard = None,
                    Err(error) => return Some(Err(error)),
                }
                self.round += 1;
            }
            let distance = 1u32.checked_shl(self.round).filter(|distance| *distance < self.size);
            let Some(distance) = distance else { return Some(Ok(())) };
            let before = (self.rank + self.size - distance) % self.size;
            let after = (self.rank + distance) % self.size;
            let tag = self.first_tag + self.round;
            let select = Select { context: self.context, source: Some(before), tag: Some(tag) };
            self.heard = Some(endpoint.start_recv(select, Target::Into(nothing())));
            let address = Address { context: self.context, to: after, tag, synchronous: false };
            match endpoint.start_send(address, nothing()) {
                Ok(Started::Done(_)) => {}
                Ok(Started::Pending(id)) => endpoint.abandon(id),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
