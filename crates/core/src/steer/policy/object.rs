//! Object by object (paper 5, section 3): the connection that an object comes over is of one channel or of the other.
//!
//! By size: what is small is fast. By priority: what the browser gives its highest one. The opener of a connection asks
//! [`Policy::object`] and binds it; a packet goes where its connection was bound to, and over the fat channel if it was not
//! bound.

use super::{Channel, Choice, Object, Policy, View};

/// Objects of at most so many bytes are fast.
#[derive(Clone, Copy, Debug)]
pub struct BySize(pub u64);

/// Objects of the highest priority are fast.
#[derive(Clone, Copy, Debug)]
pub struct ByPriority;

fn as_bound(view: &View<'_>) -> Choice {
    match view.packet.hint {
        Some(Channel::Fast) => Choice::fast("bound"),
        Some(Channel::Fat) => Choice::fat("bound"),
        None => Choice::fat("not bound"),
    }
}

fn fast_if(fast: bool) -> Option<Channel> {
    Some(if fast { Channel::Fast } else { Channel::Fat })
}

impl Policy for BySize {
    fn choose(&self, view: &View<'_>) -> Choice {
        as_bound(view)
    }

    fn object(&self, object: &Object) -> Option<Channel> {
        fast_if(object.bytes.is_some_and(|bytes| bytes <= self.0))
    }
}

impl Policy for ByPriority {
    fn choose(&self, view: &View<'_>) -> Choice {
        as_bound(view)
    }

    fn object(&self, object: &Object) -> Option<Channel> {
        fast_if(object.urgency == 0)
    }
}
