//! Why a connection was not there when a program wanted it, although connections are opened ahead: what would have to be
//! better for it to be there. Ours.
//!
//! What never happens here: a decision. It is counted what others have decided.

/// What kept a program from finding its connection open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PoolMiss {
    /// The program had not been there in two launches before.
    Unknown,
    /// It was not expected now: nothing that leads to it was asked for, or its time was still to come, or had passed.
    Unexpected,
    /// It was less likely than not.
    Unlikely,
    /// The idle timeout of its server was not known yet; one was opened to learn it.
    Untried,
    /// It was begun too late: it was still under way.
    Late,
    /// It was begun too early, or the server bears too little: it was too old.
    Expired,
    /// What had been opened was taken already; more side by side than usual.
    Beside,
    /// There were as many as there may be.
    NoRoom,
    /// The host rests: too much was wasted, or its server closes too soon.
    Resting,
    /// Never opened ahead: the server speaks first, or is a neighbour.
    Barred,
    /// The other side had closed it.
    Closed,
}

impl PoolMiss {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::Unknown,
        Self::Unexpected,
        Self::Unlikely,
        Self::Untried,
        Self::Late,
        Self::Expired,
        Self::Beside,
        Self::NoRoom,
        Self::Resting,
        Self::Barred,
        Self::Closed,
    ];

    /// In a few words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Unknown => "not known of two launches",
            Self::Unexpected => "not expected now",
            Self::Unlikely => "less likely than not",
            Self::Untried => "its server not tried yet",
            Self::Late => "opened too late",
            Self::Expired => "opened too early",
            Self::Beside => "beside others",
            Self::NoRoom => "no room",
            Self::Resting => "its host rests",
            Self::Barred => "never opened ahead",
            Self::Closed => "closed by the server",
        }
    }
}
