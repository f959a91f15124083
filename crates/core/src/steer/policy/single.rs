//! One channel for everything: what a host without steering has.

use super::{Channel, Choice, Policy, View};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Single(pub Channel);

impl Policy for Single {
    fn choose(&self, _view: &View<'_>) -> Choice {
        match self.0 {
            Channel::Fat => Choice::fat("everything"),
            Channel::Fast => Choice::fast("everything"),
        }
    }
}
